"""One file per job, with the job as a function; the command line is in `mqpipeline.cli`."""
