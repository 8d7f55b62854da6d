"""What both servers run on: the listener, threads, limits, logs, watched files."""
