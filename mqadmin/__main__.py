"""`python -m mqadmin`."""

import sys

from mqadmin.main import main

sys.exit(main())
