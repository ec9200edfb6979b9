/* What a log density with its gradient costs in plain C: the predator-prey dictionary, by hand.
   Dormand-Prince steps with forward sensitivities of 14 coefficients and one initial value, and for
   each of two blocks a covariance, its Cholesky factor, inverse, and gradient. Prints microseconds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEPS 128
#define N 52
#define Q 16 /* 15 columns, filled up for vector instructions */

static const double A[6][5] = {{0}, {1. / 5}, {3. / 40, 9. / 40}, {44. / 45, -56. / 15, 32. / 9},
    {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
    {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656}};
static const double B[6] = {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84};

static double path[STEPS + 1][2], sens[STEPS + 1][2][Q];

static void solve(const double *th, double x0, double x1, double h) {
    double x[2] = {x0, x1}, s[2][Q] = {{0}};
    s[0][14] = 1;
    for (int n = 0; n < STEPS; n++) {
        double k[6][2], ks[6][2][Q];
        for (int i = 0; i < 6; i++) {
            double y[2] = {x[0], x[1]}, t[2][Q];
            for (int d = 0; d < 2; d++) for (int q = 0; q < Q; q++) t[d][q] = s[d][q];
            for (int j = 0; j < i; j++) for (int d = 0; d < 2; d++) {
                y[d] += h * A[i][j] * k[j][d];
                for (int q = 0; q < Q; q++) t[d][q] += h * A[i][j] * ks[j][d][q];
            }
            double a = y[0], b = y[1], f[7] = {a, b, a * b, a * a, b * b, a * a * a, b * b * b};
            for (int d = 0; d < 2; d++) {
                const double *c = th + 7 * d;
                double sum = 0, ja = c[0] + c[2] * b + 2 * c[3] * a + 3 * c[5] * a * a;
                double jb = c[1] + c[2] * a + 2 * c[4] * b + 3 * c[6] * b * b;
                for (int m = 0; m < 7; m++) sum += c[m] * f[m];
                k[i][d] = sum;
                for (int q = 0; q < Q; q++) ks[i][d][q] = ja * t[0][q] + jb * t[1][q];
                for (int m = 0; m < 7; m++) ks[i][d][7 * d + m] += f[m];
            }
        }
        for (int i = 0; i < 6; i++) for (int d = 0; d < 2; d++) {
            x[d] += h * B[i] * k[i][d];
            for (int q = 0; q < Q; q++) s[d][q] += h * B[i] * ks[i][d][q];
        }
        for (int d = 0; d < 2; d++) {
            path[n + 1][d] = x[d];
            for (int q = 0; q < Q; q++) sens[n + 1][d][q] = s[d][q];
        }
    }
}

static double block(const double *t, const double *r, double w, double l, double noise, double *grad) {
    static double K[N][N], C[N][N], W[N][N], V[N][N], alpha[N];
    double value = 0;
    for (int i = 0; i < N; i++) for (int j = 0; j <= i; j++) {
        double lag = (t[i] - t[j]) / l;
        K[i][j] = K[j][i] = w * exp(-0.5 * lag * lag);
        C[j][i] = K[i][j] + (i == j) * noise;
    }
    for (int j = 0; j < N; j++) {
        double p = sqrt(C[j][j]), q = 1 / p;
        value -= log(p);
        for (int k = j; k < N; k++) C[j][k] *= q;
        for (int i = j + 1; i < N; i++) {
            double f = C[j][i];
            for (int k = i; k < N; k++) C[i][k] -= f * C[j][k];
        }
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) W[i][k] = (k == i), V[i][k] = 0;
        for (int j = 0; j < i; j++) {
            double f = C[j][i];
            for (int k = 0; k <= j; k++) W[i][k] -= f * W[j][k];
        }
        double q = 1 / C[i][i];
        for (int k = 0; k <= i; k++) W[i][k] *= q;
    }
    for (int j = 0; j < N; j++) for (int i = 0; i <= j; i++) {
        double f = W[j][i];
        for (int k = 0; k <= j; k++) V[i][k] += f * W[j][k];
    }
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) sum += V[i][j] * r[j];
        alpha[i] = sum;
        value -= 0.5 * sum * r[i];
    }
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) {
        double g = 0.5 * (alpha[i] * alpha[j] - V[i][j]), lag = (t[i] - t[j]) / l;
        grad[0] += g * K[i][j] / w;
        grad[1] += g * K[i][j] * lag * lag / l;
        grad[2] += g * (i == j);
    }
    return value;
}

int main(void) {
    double th[14] = {1, 0, -2, 0, 0, 0, 0, 0, -1.5, 2, 0, 0, 0, 0}, t[N], r[N], total = 0;
    int runs = 2000;
    for (int i = 0; i < N; i++) t[i] = i / (N - 1.0);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int n = 0; n < runs; n++) {
        double grad[Q + 6] = {0};
        th[0] = 1 + 1e-9 * n;
        solve(th, 0.5, 0.5, 16.5 / STEPS);
        for (int d = 0; d < 2; d++) {
            for (int i = 0; i < N; i++) r[i] = 0.1 * sin(9. * i) + path[2 * i + 1][d];
            total += block(t, r, 0.3, 0.3, 0.01, grad + Q + 3 * d);
            for (int i = 0; i < N; i++) for (int q = 0; q < Q; q++) grad[q] += r[i] * sens[2 * i + 1][d][q];
        }
        total += grad[0] + grad[Q + 1];
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    fprintf(stderr, "%g\n", total); /* so that nothing is optimised away */
    printf("%.3f\n", ((b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) * 1e-3) / runs);
    return 0;
}
