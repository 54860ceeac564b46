// Counts the elements in which two buffers differ, bit for bit. Plain OpenCL C 1.2. 0.0 and -0.0 are equal, unless it is
// built with -DSIGN=0u.
//
//   expected, found   two buffers of elements, seen as words of 32 bits, or of 16 with -DWORD=ushort
//   first, count      the elements compared: first .. first + count - 1
//   words             words of one element: 2 for float64, else 1
//   differing         one counter, set to 0 by the host
//
// One dimension, any global size: each work-item takes every get_global_size(0)-th element, so that neighbours read
// neighbouring addresses.

#ifndef WORD
#define WORD uint
#endif
#ifndef SIGN
#define SIGN (1u << (8 * sizeof(WORD) - 1))
#endif

__kernel void count_differences(__global const WORD* expected,
                                __global const WORD* found,
                                const ulong first,
                                const ulong count,
                                const uint words,
                                volatile __global uint* differing)
{
    uint mine = 0;
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
        const ulong at = (first + i) * words;
        uint changed = 0;       // bits that differ, in any word
        uint digits = 0;        // bits of either element, without its sign
        for (uint w = 0; w < words; w++) {
            const uint e = expected[at + w];
            const uint f = found[at + w];
            const uint sign = (w == words - 1) ? SIGN : 0u;      // little-endian: the last word holds it
            changed |= e ^ f;
            digits |= (e | f) & ~sign;
        }
        mine += (changed != 0 && digits != 0);
    }
    if (mine != 0)
        atomic_add(differing, mine);
}
