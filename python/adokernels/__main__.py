"""The command line as ``python -m adokernels``."""

import sys

from adokernels.cli.program import main

sys.exit(main())
