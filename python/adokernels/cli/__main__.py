"""The command line as ``python -m adokernels.cli``."""

import sys

from adokernels.cli.program import main

sys.exit(main())
