/* SPDX-License-Identifier: BSD-3-Clause */
/* What the script beside this compares names and lines of: functions that are inlined and not. */
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace demo {

template <typename T> struct Sum {
    T total{};

    void add(const T &value)
    {
        total += value;
    }
};

static inline int square(int x)
{
    return x * x;
}

__attribute__((noinline)) int work(const std::vector<int> &values)
{
    Sum<int> sum;

    for (int value : values)
        sum.add(square(value));
    return sum.total;
}

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};

struct Circle : Shape {
    double radius;

    explicit Circle(double r) : radius(r)
    {
    }

    double area() const override
    {
        return 3 * radius * radius;
    }
};

} // namespace demo

int main(int argc, char **argv)
{
    std::vector<int> values;

    (void)argv;
    for (int i = 0; i < argc * 100; i++)
        values.push_back(i * 7919 % 101);
    std::sort(values.begin(), values.end());

    demo::Shape *const shape = new demo::Circle(argc);
    const std::string text =
        std::to_string(demo::work(values)) + " " + std::to_string(shape->area());

    std::puts(text.c_str());
    delete shape;
    return 0;
}
