"""python -m demo.static OUT"""

import sys

from demo.static import main

sys.exit(main())
