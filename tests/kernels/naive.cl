// A right product, one work-item for one element of C. Tests break it by build options:
//   LOSE_LAST   the last product of every sum is left out
//   SKIP_EDGE   nothing is written in the last row
//   NO_EDGE     no test against the edges of C: work-items beyond them write, too
//   WRITE_A     it also overwrites the first element of A
//   EMPTY       it does nothing
//   SCRATCH=n   it takes a scratch buffer and writes its n-th element
//   CRASH       it writes where no memory is, which kills its process on a CPU
#ifndef REAL
#define REAL float
#endif

__kernel void naive(const int m, const int n, const int k,
                    const REAL alpha, __global REAL* a, const long a_offset, const int lda, const long a_stride,
                    __global const REAL* b, const long b_offset, const int ldb, const long b_stride,
                    const REAL beta, __global REAL* c, const long c_offset, const int ldc, const long c_stride
#ifdef SCRATCH
                    , __global REAL* scratch
#endif
                    )
{
    const int column = get_global_id(0), row = get_global_id(1);
    const size_t batch = get_global_id(2);
#ifdef EMPTY
    return;
#endif
#ifdef SKIP_EDGE
    if (row == m - 1)
        return;
#endif
#ifndef NO_EDGE
    if (row >= m || column >= n)
        return;
#endif
    __global const REAL* a_row = a + a_offset + batch * a_stride + (size_t)row * lda;
    __global const REAL* b_column = b + b_offset + batch * b_stride + column;
    __global REAL* out = c + c_offset + batch * c_stride + (size_t)row * ldc + column;
    int steps = alpha == 0 ? 0 : k;
#ifdef LOSE_LAST
    steps -= 1;
#endif
    REAL sum = 0;
    for (int i = 0; i < steps; i++)
        sum += a_row[i] * b_column[(size_t)i * ldb];
#ifdef SCRATCH
    scratch[SCRATCH] = sum;
#endif
#ifdef CRASH
    *(__global volatile REAL*)(size_t)8 = sum;
#endif
#ifdef WRITE_A
    if (row == 0 && column == 0)
        a[a_offset] += 1;
#endif
#ifdef WRITE_BEFORE_A
    if (row == 0 && column == 0)
        a[0] = 1;
#endif
    *out = alpha * sum + (beta == 0 ? 0 : beta * *out);
}
