// Wrong: sums are kept in C's own 16 bits rather than in float32.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum = AS_STORED(sum + A(ROW, p) * B(p, COLUMN));
    STORE(ROW, COLUMN, sum);
}
