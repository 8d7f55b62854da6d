"""What the broker answers, one family a file, one function a request code."""
