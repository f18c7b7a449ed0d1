"""Student's t, of whole degrees of freedom, and no more of it than intervals and plans need."""

import math
from functools import cache
from statistics import NormalDist

# Beyond it the normal distribution is the same to three digits, and the sum below is long.
_NEARLY_NORMAL = 2000


def student_probability(t: float, degrees: int) -> float:
    """Return the probability that Student's t is at most `t`.

    With θ = atan(t / √n), n degrees of freedom, the probability of |T| ≤ t is a finite sum over
    powers of cos θ (Abramowitz and Stegun 1964, 26.7.3 for odd n and 26.7.4 for even):

        n odd:  2/π · (θ + sin θ · (cos θ + 2/3 cos³θ + … + 2·4…(n-3) / 3·5…(n-2) cos^(n-2) θ))
        n even: sin θ · (1 + 1/2 cos²θ + … + 1·3…(n-3) / 2·4…(n-2) cos^(n-2) θ)
    """
    if degrees > _NEARLY_NORMAL:
        return NormalDist().cdf(t)
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for factor in range(2 if odd else 1, degrees, 2):
        total += term
        term *= factor / (factor + 1) * cosine * cosine
    between = math.sin(angle) * total
    if odd:
        between = 2 / math.pi * (angle + between)
    return (1 + between) / 2


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return what Student's t exceeds with 1 - `probability`, which is between 1/2 and 1."""
    if degrees > _NEARLY_NORMAL:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while student_probability(high, degrees) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if student_probability(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high
