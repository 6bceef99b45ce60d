// The search behind make_knight_swap.py: shortest ways to exchange white and black knights that move by turns.
//
// Squares are numbered row by row; bit s of a mask is square s. A position is the pair of masks and who is to
// move. Built by the script as a shared library.

#include <stdint.h>
#include <string.h>

#define SQUARES 12
#define LIMIT 40000

static uint16_t white[LIMIT], black[LIMIT];
static int32_t before[LIMIT];
static uint8_t turn[LIMIT], from[LIMIT], to[LIMIT];
static uint32_t seen[2][1 << SQUARES][(1 << SQUARES) / 32];

// Number of moves of a shortest way, written to `plan` as from, to, from, to, ...; -1 if there is none.
// `neighbours` are the squares a knight's move away from each, `first` is 0 if white begins and 1 if black does.
int search(const uint16_t *neighbours, int allowed, int start_white, int start_black, int first, uint8_t *plan) {
    int count = 1, found = -1;
    white[0] = start_white, black[0] = start_black, turn[0] = first, before[0] = -1;
    seen[first][start_white][start_black / 32] |= 1u << start_black % 32;
    for (int k = 0; k < count && found < 0; k++) {
        int own = turn[k] ? black[k] : white[k], other = turn[k] ? white[k] : black[k];
        for (int s = 0; s < SQUARES && found < 0; s++) {
            if (!(own >> s & 1)) continue;
            int free = neighbours[s] & allowed & ~(own | other);
            for (int t = 0; t < SQUARES && found < 0; t++) {
                if (!(free >> t & 1)) continue;
                int moved = own ^ 1 << s ^ 1 << t;
                int w = turn[k] ? other : moved, b = turn[k] ? moved : other, next = !turn[k];
                if (seen[next][w][b / 32] >> b % 32 & 1) continue;
                seen[next][w][b / 32] |= 1u << b % 32;
                white[count] = w, black[count] = b, turn[count] = next;
                before[count] = k, from[count] = s, to[count] = t;
                if (w == start_black && b == start_white) found = count;
                count++;
            }
        }
    }
    for (int k = 0; k < count; k++) seen[turn[k]][white[k]][black[k] / 32] = 0;
    if (found < 0) return -1;
    int moves = 0;
    for (int k = found; before[k] >= 0; k = before[k]) moves++;
    for (int k = found, m = moves - 1; before[k] >= 0; k = before[k], m--) plan[2 * m] = from[k], plan[2 * m + 1] = to[k];
    return moves;
}
