// The search behind make_matchstick_equation.py: the fewest moves that make equations true.
//
// Symbols are 0 .. 9, then + - * / = and what stands behind the equation. Built by the script as a shared library.

#include <stdint.h>

#define M 11
enum { PLUS = 10, MINUS, TIMES, OVER, EQUALS, ABSENT };
static const int8_t CHANGES[9][2] = {{6, 5}, {7, 1}, {8, 0}, {8, 6}, {8, 9}, {9, 3}, {9, 5}, {PLUS, MINUS}, {TIMES, OVER}};

static int is_true(const int8_t *s) {
    long v[4] = {0}, x = 0, y, z = 1;
    int op[4], n = 0;
    for (int k = 0; k < M && s[k] != ABSENT; k++) {
        if (s[k] < PLUS) v[n] = 10 * v[n] + s[k];
        else op[n++] = s[k];
    }
    // n numbers on the left; products and quotients come last in a sum.
    y = v[n - 1];
    int over = 0;
    if (op[n - 2 < 0 ? 0 : n - 2] >= TIMES && n > 1) z = v[n - 1], y = v[n - 2], over = op[n - 2] == OVER, n--;
    if (n > 1) x = v[0], y = op[0] == MINUS ? -y : y;
    long w = 0;
    int k = 0;
    while (s[k] != EQUALS) k++;
    for (k++; k < M && s[k] != ABSENT; k++) w = 10 * w + s[k];
    return over ? z != 0 && x * z + y == w * z : x + y * z == w;
}

// Whether at most `depth` moves make it true.
static int near(int8_t *s, int depth) {
    if (is_true(s)) return 1;
    if (depth == 0) return 0;
    for (int i = 0; i < M; i++)
        for (int g = 0; g < 9; g++) {
            if (s[i] != CHANGES[g][0]) continue;
            for (int j = 0; j < M; j++)
                for (int r = 0; r < 9; r++) {
                    if (j == i || s[j] != CHANGES[r][1]) continue;
                    s[i] = CHANGES[g][1], s[j] = CHANGES[r][0];
                    int found = near(s, depth - 1);
                    s[i] = CHANGES[g][0], s[j] = CHANGES[r][1];
                    if (found) return 1;
                }
        }
    return 0;
}

// For each of `count` equations of M symbols whether `depth` moves are too few.
void far(int count, int8_t *symbols, int depth, uint8_t *out) {
    for (int k = 0; k < count; k++) out[k] = !near(symbols + M * k, depth);
}
