# SPDX-License-Identifier: Apache-2.0
"""How alternated pairs are judged: by the ratios within pairs, since what troubles a machine
troubles both of a pair."""
import math
import statistics

# Student's t for a one-sided bound of 95 %, by degrees of freedom (any statistics table).
T95 = {4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812, 11: 1.796, 12: 1.782,
       13: 1.771, 14: 1.761, 15: 1.753, 19: 1.729, 24: 1.711, 29: 1.699}


def upper_bound(ratios):
    """Of the mean of log ratios, back as a ratio."""
    logs = [math.log(r) for r in ratios]
    n = len(logs)
    t = T95.get(n - 1, 2.132)
    return math.exp(statistics.mean(logs) + t * statistics.stdev(logs) / math.sqrt(n))
