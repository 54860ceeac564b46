// Wrong: parts of the sum, 32 steps long, are rounded to C's own 16 bits before they are added up.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0, part = 0;
    for (int p = 0; p < STEPS; p++) {
        part += A(ROW, p) * B(p, COLUMN);
        if (p % 32 == 31 || p == STEPS - 1) {
            sum += AS_STORED(part);
            part = 0;
        }
    }
    STORE(ROW, COLUMN, sum);
}
