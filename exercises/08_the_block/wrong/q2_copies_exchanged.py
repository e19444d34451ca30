"""The other copy is bent

Which of the two copies goes through SiLU?

Bend x @ gate; leave x @ up as it is.
"""

import numpy as np


def swiglu(x, gate, up, down):
    bent = x @ up
    return (bent / (1 + np.exp(-bent)) * (x @ gate)) @ down
