"""`python -m mqclient.cli`."""

import sys

from mqclient.cli.main import main

sys.exit(main())
