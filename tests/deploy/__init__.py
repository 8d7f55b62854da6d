"""The files that install and watch mqstack, and pages that must agree with the sources."""
