// Wrong: C is cut off rather than rounded to the nearest when it is stored in 16 bits.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const REAL value = NEW(ROW, COLUMN, sum);
#ifdef FLOAT16
    vstore_half_rtz(value, C_PLACE(ROW, COLUMN), c);
#else
    c[C_PLACE(ROW, COLUMN)] = as_uint(value) >> 16;
#endif
}
