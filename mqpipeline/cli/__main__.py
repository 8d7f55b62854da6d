"""`python -m mqpipeline.cli`."""

import sys

from mqpipeline.cli.main import main

sys.exit(main())
