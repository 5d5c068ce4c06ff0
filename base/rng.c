/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "base/rng.h"

#include <assert.h>

#define LN2_Q64 UINT64_C(0xb17217f7d1cf79ac) /* ln 2 * 2^64, rounded */

/* {round(ln(r / 512) * 2^64), r}, r = floor(512 * 256 / (129 + i)): r / 512 is the largest multiple
 * of 1/512 that keeps m * r / 512 <= 1 for all m in [(128 + i) / 256, (129 + i) / 256]. */
static const struct {
    uint64_t ln_q64;
    uint16_t r;
} reciprocal[128] = {
    {0xaf70154920b3ab87, 1016}, {0xad6a0261acf967d9, 1008}, {0xab5fcead9f9cca09, 1000},
    {0xa9516932de2d5774, 992},  {0xa78151e9817830bf, 985},  {0xa5adeb4ab7139c6f, 978},
    {0xa393a1f99d55698d, 970},  {0xa1b8fa4f11ece85d, 963},  {0x9fdadc268b7a12da, 956},
    {0x9df93a785d38659b, 949},  {0x9c1407f2c3cbf5fd, 942},  {0x9a7144ece70e98b7, 936},
    {0x98854ec423189149, 929},  {0x96dcaab906f11632, 923},  {0x94e9bff615845643, 916},
    {0x933b1009a186fe69, 910},  {0x9140fd9a330cfa7f, 903},  {0x8f8c1514d7ed8360, 897},
    {0x8dd43de4c760d5c8, 891},  {0x8c196de51316c6c5, 885},  {0x8a5b9abbcce6889c, 879},
    {0x889ab9d893140c1f, 873},  {0x87224c2e8e645fb7, 868},  {0x855bb5f670a68e03, 862},
    {0x8391f2e0e6fa0273, 856},  {0x821205cb2f2a610c, 851},  {0x80425294db9c2f47, 845},
    {0x7ebd623de3cc7b67, 840},  {0x7ce796f204796f34, 834},  {0x7b5d8165d998ed42, 829},
    {0x79d109875a1e1f8e, 824},  {0x784227e89745a0fb, 819},  {0x76b0d4f8b165508c, 814},
    {0x751d0902fb77562a, 809},  {0x7386bc2e17cfadee, 804},  {0x71ede67b0dbabe07, 799},
    {0x70527fc457c09ab3, 794},  {0x6eb47fbcea4595ca, 789},  {0x6d13ddef323d8a33, 784},
    {0x6bc4a4c91de1ac45, 780},  {0x6a1f305976c66479, 775},  {0x68cc100813e98dcd, 771},
    {0x6721ac0b70218a6f, 766},  {0x65ca8d044d4561a6, 762},  {0x641b1b88711d4e7a, 757},
    {0x62bfe569985dffa4, 753},  {0x610b47687a2c5d25, 748},  {0x5fabe0ee0abf0d93, 744},
    {0x5e4a957f751e89f0, 740},  {0x5ce75fdaef401a74, 736},  {0x5b823aa8ae878e30, 732},
    {0x5a1b207a6c52bb11, 728},  {0x58b20bcae71e54be, 724},  {0x5746f6fd60272942, 720},
    {0x55d9dc5d1569b152, 716},  {0x546ab61cb7e0b427, 712},  {0x52f97e55dde2836d, 708},
    {0x51862f08717b09f4, 704},  {0x5010c21a1a9f8ef4, 700},  {0x4ef7493ac52da84b, 697},
    {0x4d7e19724ca4f822, 693},  {0x4c02bab418d42f57, 689},  {0x4ae4c0eae2749277, 686},
    {0x496580437dd8e7bc, 682},  {0x4844956618582e79, 679},  {0x46c15e47c1ed22ba, 675},
    {0x459d72aeae98380e, 672},  {0x44162fe6b92b5462, 668},  {0x42ef336c3492f32d, 665},
    {0x4163cf1c0faf1799, 661},  {0x4039b116b540731a, 658},  {0x3f0e36512aa08a03, 655},
    {0x3de15b97b8b26ca4, 652},  {0x3c4e0edc55e5cbd4, 648},  {0x3b1df235e63abbe8, 645},
    {0x39ec6a9c138bb892, 642},  {0x38b974a875c8494f, 639},  {0x37850ce85b19ac54, 636},
    {0x364f2fdc8c641775, 633},  {0x3517d9f9105e3186, 630},  {0x33df07a4ed3467a4, 627},
    {0x32a4b539e8ad68ed, 624},  {0x3168df0446c4b67d, 621},  {0x302b814286afd5ad, 618},
    {0x2eec98251e424e92, 615},  {0x2dac1fce33a4391b, 612},  {0x2c6a1451554eaf60, 609},
    {0x2b2671b330410ba7, 606},  {0x2a4dcbc743686f46, 604},  {0x29077999cdc7ba95, 601},
    {0x27bf8561d98c5395, 598},  {0x2675eaeaee1c9ecd, 595},  {0x259941ebebe4a10e, 593},
    {0x244cde3214b596fb, 590},  {0x22fec8b1f94c21fd, 587},  {0x221f1c844a736264, 585},
    {0x20ce2a2594b2dc54, 582},  {0x1f7b79fec37ddecf, 579},  {0x1e98b54967146775, 577},
    {0x1d4313d66cb35d5e, 574},  {0x1c5e548f5bc74316, 572},  {0x1b05b49bee43fe46, 569},
    {0x1a1ef1d8061cd417, 567},  {0x18c345d6319b20f6, 564},  {0x17da766d7b12cc84, 562},
    {0x16f0d28ae56b4b9c, 560},  {0x1590cafdf01c284f, 557},  {0x14a50d3aa1b0400f, 555},
    {0x13b87598b1b6edf5, 553},  {0x1253f62f0a1416f9, 550},  {0x116536eea37ae0e8, 548},
    {0x1075983598e47130, 546},  {0x0f0c838613b00add, 543},  {0x0e1aaee8490f9666, 541},
    {0x0d27f4ffd1e91a7b, 539},  {0x0c34541841fb6771, 537},  {0x0ac52dd7e4726a46, 534},
    {0x09cf43dcff5eafd5, 532},  {0x08d86cc491ecbfe1, 530},  {0x07e0a6c39e0cc013, 528},
    {0x06e7f009ebe465ff, 526},  {0x05ee46c1f56c46aa, 524},  {0x04f3a910d1a95d3c, 522},
    {0x03f815161f807c7a, 520},  {0x02fb88ebf0214edc, 518},  {0x01fe02a6b1067890, 516},
    {0x00ff805515885e02, 514},  {0x0000000000000000, 512},
};

/* splitmix64's output function (Steele, Lea, Flood 2014; constants of Stafford's variant 13). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t splitmix_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state);
}

void vt_rng_seed(struct vt_rng *rng, uint64_t seed, const char *stream, uint64_t index)
{
    uint64_t name = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 64 bits */
    uint64_t state = seed;

    for (const char *p = stream; *p; p++)
        name = (name ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    /* Each step is a bijection of its last input: streams that differ in one part only never
     * start equal. Four outputs of splitmix64 are never all zero. */
    state = splitmix_next(&state) ^ name;
    state = splitmix_next(&state) ^ index;
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix_next(&state);
}

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

uint64_t vt_rng_next(struct vt_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t vt_rng_below(struct vt_rng *rng, uint64_t bound)
{
    unsigned __int128 product;

    if (bound == 0)
        return 0;
    /* Lemire, "Fast random integer generation in an interval", 2019: the high half is uniform
     * once low halves under 2^64 mod bound are drawn again. */
    product = (unsigned __int128)vt_rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t least = -bound % bound;

        while ((uint64_t)product < least)
            product = (unsigned __int128)vt_rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

static uint64_t mul_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* With U = 1 - r / 2^64 = m / 2^zeros, m in [1/2, 1) or r = 0:
 *   -ln U = zeros * ln 2 + ln c - ln(m c),   c = reciprocal[i].r / 512,
 * and d = 1 - m c in [0, 2^-6.6) makes -ln(1 - d) = d + d^2/2 + ... + d^5/5, rest below d^6/5.9.
 * Error relative to the result:
 * - the rest: where ln c = 0 and zeros = 0, m c is m >= 255/256 and d the result: d^5 < 2^-40.
 *   Elsewhere the result is at least ln(514/512) > 2^-8.01 beside d <= 2^-7.4 (up to 0.7 beside
 *   2^-6.6): at most 2^-38.
 * - the fixed point: d is exact where ln c = 0 and zeros = 0. The terms after it are rounded down
 *   by less than 2 units of 2^-64, and by no more than their own value, about d^2/2: with D = d *
 *   2^64 the relative error is at most min(2 / D, D / 2^65) <= 2^-32. Elsewhere about 70 units at
 *   most, and the result is at least 2^-8.01: below 2^-49.
 * So 2^-31 in all, with room. */
unsigned __int128 vt_rng_minus_ln_q64(uint64_t r)
{
    uint64_t m, d, tail;
    unsigned __int128 sum;
    unsigned zeros, i;

    if (r == 0)
        return 0;
    m = -r;
    zeros = (unsigned)__builtin_clzll(m);
    m <<= zeros;
    i = (unsigned)(m >> 56) & 127;
    /* 2^64 * (1 - m c), modulo 2^64; 0 only where m c = 1, which m < 1 excludes for c = 1. */
    d = -(uint64_t)((unsigned __int128)m * reciprocal[i].r >> 9);
    tail = UINT64_C(0x3333333333333333);                             /* 1/5 */
    tail = UINT64_C(0x4000000000000000) + mul_high(tail, d);         /* 1/4 */
    tail = UINT64_C(0x5555555555555555) + mul_high(tail, d);         /* 1/3 */
    tail = UINT64_C(0x8000000000000000) + mul_high(tail, d);         /* 1/2 */
    sum = (unsigned __int128)zeros * LN2_Q64 + reciprocal[i].ln_q64; /* of ln 2 and ln c */
    return sum + d + mul_high(mul_high(tail, d), d);
}

int64_t vt_rng_exp_ns(struct vt_rng *rng, int64_t mean_ns)
{
    unsigned __int128 e = vt_rng_minus_ln_q64(vt_rng_next(rng));
    unsigned __int128 ns;

    if (mean_ns <= 0)
        return 0;
    ns = (unsigned __int128)(uint64_t)(e >> 64) * (uint64_t)mean_ns;
    ns += ((unsigned __int128)(uint64_t)e * (uint64_t)mean_ns + (UINT64_C(1) << 63)) >> 64;
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

unsigned vt_rng_pick(struct vt_rng *rng, const uint32_t *weight, unsigned n)
{
    uint64_t sum = 0, at;

    for (unsigned i = 0; i < n; i++)
        sum += weight[i];
    assert(n >= 1 && sum > 0);
    at = vt_rng_below(rng, sum);
    for (unsigned i = 0; i + 1 < n; i++) {
        if (at < weight[i])
            return i;
        at -= weight[i];
    }
    return n - 1;
}
