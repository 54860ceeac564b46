// Wrong: every sum is rounded to fp16.
#define AS_HALF(x) as_float((as_uint((float)(x)) + 0x1000u) & ~0x1fffu)  // 11 significant bits

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum = AS_HALF(sum + A(ROW, p) * B(p, COLUMN));
    STORE(ROW, COLUMN, sum);
}
