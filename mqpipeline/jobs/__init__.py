"""One file for each job: a function, without a command line."""
