"""`python -m twinraven`, the same command where no script is installed."""

from __future__ import annotations

import sys

from twinraven.cli import main

sys.exit(main())
