"""The files that install mqstack: image, compose file, Kubernetes, systemd, release."""
