// Right products in several orders of summation. Each element of C is one work-item's; `split` and `gather` are two
// steps of one configuration and share scratch.

#define SUM_IN_ORDER(name, loop)          \
    __kernel void name(GEMM_ARGUMENTS)    \
    {                                     \
        if (OUTSIDE)                      \
            return;                       \
        REAL sum = 0;                     \
        loop                              \
        STORE(ROW, COLUMN, sum);          \
    }

SUM_IN_ORDER(sequential,
    for (int p = 0; p < STEPS; p++)
        sum += A(ROW, p) * B(p, COLUMN);
)

SUM_IN_ORDER(backwards,
    for (int p = STEPS - 1; p >= 0; p--)
        sum += A(ROW, p) * B(p, COLUMN);
)

SUM_IN_ORDER(fused,
    for (int p = 0; p < STEPS; p++)
        sum = fma(A(ROW, p), B(p, COLUMN), sum);
)

// Both volatile, so that no compiler fuses them or leaves the correction out.
SUM_IN_ORDER(unfused,
    for (int p = 0; p < STEPS; p++) {
        volatile REAL product = A(ROW, p) * B(p, COLUMN);
        sum += product;
    }
)

SUM_IN_ORDER(kahan,
    volatile REAL lost = 0;
    for (int p = 0; p < STEPS; p++) {
        volatile REAL term = A(ROW, p) * B(p, COLUMN) - lost;
        volatile REAL next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
)

SUM_IN_ORDER(two_sums,
    REAL odd = 0;
    for (int p = 0; p + 1 < STEPS; p += 2) {
        sum += A(ROW, p) * B(p, COLUMN);
        odd += A(ROW, p + 1) * B(p + 1, COLUMN);
    }
    if (STEPS % 2)
        sum += A(ROW, k - 1) * B(k - 1, COLUMN);
    sum += odd;
)

// Four sums side by side, and what is left of k.
SUM_IN_ORDER(vectors,
    REAL4 four = 0;
    int p = 0;
    for (; p + 3 < STEPS; p += 4) {
        const REAL4 left = (REAL4)(A(ROW, p), A(ROW, p + 1), A(ROW, p + 2), A(ROW, p + 3));
        const REAL4 right = (REAL4)(B(p, COLUMN), B(p + 1, COLUMN), B(p + 2, COLUMN), B(p + 3, COLUMN));
        four += left * right;
    }
    sum = (four.x + four.y) + (four.z + four.w);
    for (; p < STEPS; p++)
        sum += A(ROW, p) * B(p, COLUMN);
)

// A tree of sums by binary counting: partial[l] is the sum of 2^l products, kept while bit l of the count is set.
SUM_IN_ORDER(tree,
    REAL partial[32];
    for (int p = 0; p < STEPS; p++) {
        REAL carry = A(ROW, p) * B(p, COLUMN);
        int level = 0;
        for (; p >> level & 1; level++)
            carry += partial[level];
        partial[level] = carry;
    }
    for (int level = 0; level < 31; level++)
        if (STEPS >> level & 1)
            sum += partial[level];
)

#define PARTS 4
#define PARTIAL(part) partial[((part * get_global_size(2) + BATCH) * m + ROW) * n + COLUMN]

// The parts of k take turns, so that each has work even if k is small.
__kernel void split(GEMM_ARGUMENTS, __global REAL* partial)
{
    if (OUTSIDE)
        return;
    for (int part = 0; part < PARTS; part++) {
        REAL sum = 0;
        for (int p = part; p < STEPS; p += PARTS)
            sum += A(ROW, p) * B(p, COLUMN);
        PARTIAL(part) = sum;
    }
}

__kernel void gather(GEMM_ARGUMENTS, __global REAL* partial)
{
    if (OUTSIDE)
        return;
    const REAL sum = (PARTIAL(0) + PARTIAL(1)) + (PARTIAL(2) + PARTIAL(3));
    STORE(ROW, COLUMN, sum);
}
