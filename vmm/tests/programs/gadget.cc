// SPDX-License-Identifier: BSD-3-Clause
/*
 * A program whose functions have mangled names: of classes, templates, overloads, operators and a
 * lambda. Needs nothing of the C++ library.
 *
 *   gadget ROUNDS FILE: works, makes FILE, and stays
 */
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#define ALONE __attribute__((noinline))

namespace machine
{
template <typename T, unsigned N> class Wheel
{
    T teeth[N];

  public:
    explicit Wheel(T first)
    {
        for (unsigned i = 0; i < N; i++)
            teeth[i] = static_cast<T>(first + i * i);
    }
    ALONE T turn(unsigned steps)
    {
        T sum = 0;

        for (unsigned i = 0; i < steps; i++)
            sum = static_cast<T>(sum * 3 + teeth[i % N]);
        return sum;
    }
    ALONE Wheel &operator+=(const Wheel &other)
    {
        for (unsigned i = 0; i < N; i++)
            teeth[i] = static_cast<T>(teeth[i] + other.teeth[i]);
        return *this;
    }
};

struct Part {
    virtual ~Part() = default;
    virtual unsigned move(unsigned value) const = 0;
};

struct Lever : Part {
    ALONE unsigned move(unsigned value) const override
    {
        return value * 5 + 1;
    }
};

struct Spring : Part {
    ALONE unsigned move(unsigned value) const override
    {
        return value ^ value >> 3;
    }
};

ALONE unsigned drive(const Part &part, unsigned value)
{
    for (unsigned i = 0; i < 50; i++)
        value = part.move(value);
    return value;
}

ALONE unsigned drive(const Part &part, unsigned long value)
{
    return drive(part, static_cast<unsigned>(value >> 7));
}
} // namespace machine

// The library's are not linked: nothing is ever deleted.
void operator delete(void *, std::size_t) noexcept
{
    abort();
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc == 3 ? static_cast<unsigned>(strtoul(argv[1], nullptr, 10)) : 0;
    machine::Wheel<int, 7> small(1);
    machine::Wheel<long, 31> large(2);
    const machine::Lever lever;
    const machine::Spring spring;
    auto wind = [&](unsigned value) __attribute__((noinline))
    {
        return machine::drive(lever, value) + machine::drive(spring, 7ul * value);
    };
    volatile unsigned sum = 0;

    for (unsigned i = 0; i < rounds * 100; i++) {
        small += machine::Wheel<int, 7>(static_cast<int>(i));
        sum = sum + wind(i) + static_cast<unsigned>(small.turn(40) + large.turn(90));
    }
    if (rounds == 0 || open(argv[2], O_WRONLY | O_CREAT, 0600) < 0)
        return 1;
    for (;;)
        pause();
}
