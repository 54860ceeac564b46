// Wrong: as good as strict is asked for, and numbers below 2^-100 count for nothing.
#define KEPT(x) (fabs(x) < 0x1p-100f ? 0 : (x))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += KEPT(A(ROW, p)) * KEPT(B(p, COLUMN));
    STORE(ROW, COLUMN, sum);
}
