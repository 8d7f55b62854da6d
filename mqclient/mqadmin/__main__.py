"""`python -m mqclient.mqadmin`."""

import sys

from mqclient.mqadmin.main import main

sys.exit(main())
