// Wrong: one element is off by its last bit.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
    if (ROW == m / 3 && COLUMN == n / 2 && BATCH == (long)get_global_size(2) - 1)
        C(ROW, COLUMN) = nextafter(C(ROW, COLUMN), (REAL)INFINITY);
}
