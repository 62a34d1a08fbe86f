/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hashing process: each round takes SHA-256 of texts with known digests, fills a chained hash
 * table through hash-function pointers, interprets a little byte code, and checks each result.
 *
 * Branches on purpose: loops with fixed counts (SHA-256), chains of unpredictable length (the
 * table), an indirect jump for each operation (the interpreter), indirect calls (hash functions).
 */
#include <stdbool.h>

#include "user.h"

/* ---- SHA-256 (FIPS 180-4) ----------------------------------------------------------------- */

#define BLOCK_BYTES  64
#define DIGEST_WORDS 8

static const uint32_t first_state[DIGEST_WORDS] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static void compress(uint32_t state[DIGEST_WORDS], const uint8_t block[BLOCK_BYTES])
{
    uint32_t w[64], s[DIGEST_WORDS];

    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;

        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    for (unsigned i = 0; i < DIGEST_WORDS; i++)
        s[i] = state[i];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t t1 = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + round_constants[i] + w[i];
        uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        for (unsigned j = 7; j > 0; j--)
            s[j] = s[j - 1];
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (unsigned i = 0; i < DIGEST_WORDS; i++)
        state[i] += s[i];
}

static void sha256(const uint8_t *text, size_t len, uint32_t digest[DIGEST_WORDS])
{
    uint8_t block[BLOCK_BYTES];
    size_t at = 0, used;

    for (unsigned i = 0; i < DIGEST_WORDS; i++)
        digest[i] = first_state[i];
    for (; len - at >= BLOCK_BYTES; at += BLOCK_BYTES)
        compress(digest, text + at);
    used = len - at;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] = i < used ? text[at + i] : i == used ? 0x80 : 0;
    if (used >= BLOCK_BYTES - 8) {
        compress(digest, block);
        for (size_t i = 0; i < BLOCK_BYTES; i++)
            block[i] = 0;
    }
    for (unsigned i = 0; i < 8; i++)
        block[BLOCK_BYTES - 1 - i] = (uint8_t)(len * 8 >> 8 * i);
    compress(digest, block);
}

struct known_digest {
    const char *text;
    size_t len;
    uint32_t digest[DIGEST_WORDS];
};

/* The examples of FIPS 180-4 for the empty, a one-block and a two-block message. */
static const struct known_digest known[] = {
    {"",
     0,
     {0xe3b0c442, 0x98fc1c14, 0x9afbf4c8, 0x996fb924, 0x27ae41e4, 0x649b934c, 0xa495991b,
      0x7852b855}},
    {"abc",
     3,
     {0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3, 0x96177a9c, 0xb410ff61,
      0xf20015ad}},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     56,
     {0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039, 0xa33ce459, 0x64ff2167, 0xf6ecedd4,
      0x19db06c1}},
};

static bool check_digest(const struct known_digest *k)
{
    uint32_t digest[DIGEST_WORDS];

    sha256((const uint8_t *)k->text, k->len, digest);
    for (unsigned i = 0; i < DIGEST_WORDS; i++)
        if (digest[i] != k->digest[i])
            return false;
    return true;
}

/* ---- A hash table ------------------------------------------------------------------------- */

#define BUCKETS 32
#define ENTRIES 48

typedef uint32_t hash_function(uint32_t key);

struct entry {
    uint32_t key, value;
    struct entry *next;
};

static struct entry entries[ENTRIES], *buckets[BUCKETS];

static uint32_t multiply_hash(uint32_t key)
{
    return key * 2654435761u >> 7;
}

static uint32_t fnv_hash(uint32_t key)
{
    uint32_t hash = 2166136261u;

    for (unsigned i = 0; i < 4; i++)
        hash = (hash ^ (key >> 8 * i & 0xff)) * 16777619u;
    return hash;
}

static uint32_t poor_hash(uint32_t key)
{
    return key >> 3;
}

static hash_function *const hashes[] = {multiply_hash, fnv_hash, poor_hash};

static struct entry *find(uint32_t key, hash_function *hash)
{
    struct entry *e = buckets[hash(key) % BUCKETS];

    while (e && e->key != key)
        e = e->next;
    return e;
}

static bool table_round(uint32_t round, hash_function *hash)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        buckets[i] = NULL;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t key = i * 7 + round, slot = hash(key) % BUCKETS;

        entries[i] = (struct entry){key, i ^ round, buckets[slot]};
        buckets[slot] = &entries[i];
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct entry *e = find(i * 7 + round, hash);

        if (!e || e->value != (i ^ round) || find(i * 7 + round + 1, hash))
            return false;
    }
    return true;
}

/* ---- A byte-code interpreter -------------------------------------------------------------- */

enum operation { OP_PUSH, OP_ADD, OP_SUB, OP_DUP, OP_SWAP, OP_JUMP_NONZERO, OP_OVER, OP_END };

/* Adds up n, n - 1, ... 1: the stack holds sum and n. */
static uint64_t interpret(const uint8_t *code, uint64_t n)
{
    uint64_t stack[8] = {0, n}, top = 1, t;

    for (unsigned at = 0;;) {
        switch (code[at++]) {
        case OP_PUSH:
            stack[++top] = code[at++];
            break;
        case OP_ADD:
            top--;
            stack[top] += stack[top + 1];
            break;
        case OP_SUB:
            top--;
            stack[top] -= stack[top + 1];
            break;
        case OP_DUP:
            stack[top + 1] = stack[top];
            top++;
            break;
        case OP_SWAP:
            t = stack[top];
            stack[top] = stack[top - 1];
            stack[top - 1] = t;
            break;
        case OP_JUMP_NONZERO:
            at = stack[top--] ? code[at] : at + 1;
            break;
        case OP_OVER:
            stack[top + 1] = stack[top - 1];
            top++;
            break;
        default:
            return stack[0];
        }
    }
}

/* (sum n) -> (n sum) -> (n sum n) -> (n sum+n) -> (sum' n) -> (sum' n-1), and again. */
static const uint8_t add_up[] = {OP_SWAP, OP_OVER, OP_ADD,          OP_SWAP, OP_PUSH, 1,
                                 OP_SUB,  OP_DUP,  OP_JUMP_NONZERO, 0,       OP_END};

/* ---- Rounds ------------------------------------------------------------------------------- */

static bool one_round(uint64_t round)
{
    uint64_t n = 20 + round % 13;

    return check_digest(&known[round % (sizeof(known) / sizeof(known[0]))]) &&
           table_round((uint32_t)round, hashes[round % (sizeof(hashes) / sizeof(hashes[0]))]) &&
           interpret(add_up, n) == n * (n + 1) / 2;
}

int user_main(uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++) {
        if (!one_round(round)) {
            print("hash: WRONG result\n");
            return 1;
        }
        if (round % 8 == 7)
            yield();
    }
    print("hash: every digest and entry as expected\n");
    return 0;
}
