// The bytes of a fuzzer as numbers, and saved states that such bytes change.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "sonline/archive.hpp"
#include "sonline/features.hpp"

namespace sonline {

inline constexpr double kSizes[] = {0,    5e-324, 1e-310, 1e-200, 1e-80, 1e-45, 1e-38, 1e-20,
                                    1e-8, 0.1,    1,      1,      1,     3,     1e3,   1e8,
                                    1e17, 1e18,   1e38,   1e75,   1e149, 1e150};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  bool empty() const { return data_ == end_; }
  uint8_t byte() { return empty() ? 0 : *data_++; }
  size_t below(size_t limit) { return byte() % limit; }
  template <class T, size_t n>
  T pick(const T (&values)[n]) {
    return values[below(n)];
  }
  // A signed number of any size up to `largest`.
  double number(double largest) {
    const uint8_t choice = byte();
    double size = kSizes[choice % std::size(kSizes)];
    if (choice >= 220) size *= 1 + byte() / 64.0;
    return std::copysign(std::min(size, largest), choice & 64 ? -1 : 1);
  }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

inline size_t number_bytes(Tensor::Type type) {
  if (type == Tensor::Type::u8) return 1;
  return type == Tensor::Type::f32 || type == Tensor::Type::u32 ? 4 : 8;
}

inline void change_tensor(Input& in, Tensor& tensor) {
  const size_t width = number_bytes(tensor.type);
  switch (in.below(8)) {
    default: {  // another number
      if (tensor.bytes.size() < width) return;
      const size_t at = (in.byte() | in.byte() << 8) % (tensor.bytes.size() / width) * width;
      if (tensor.type == Tensor::Type::f64) {
        const double value = in.number(1e300);
        std::memcpy(tensor.bytes.data() + at, &value, 8);
      } else if (tensor.type == Tensor::Type::f32) {
        const auto value = static_cast<float>(in.number(3e38));
        std::memcpy(tensor.bytes.data() + at, &value, 4);
      } else {
        constexpr uint64_t kCounts[] = {0,
                                        1,
                                        2,
                                        3,
                                        5,
                                        16,
                                        63,
                                        255,
                                        511,
                                        512,
                                        513,
                                        4095,
                                        4096,
                                        8192,
                                        uint64_t{1} << 31,
                                        uint64_t{1} << 32,
                                        uint64_t{1} << 62,
                                        ~uint64_t{0},
                                        kNamed,
                                        kNamed + 7};
        const uint64_t value = in.pick(kCounts);
        std::memcpy(tensor.bytes.data() + at, &value, width);
      }
      return;
    }
    case 5: {  // more or fewer rows
      if (tensor.shape.empty() || tensor.shape[0] == 0) return;
      const size_t row = tensor.bytes.size() / tensor.shape[0];
      tensor.shape[0] = in.below(2) ? tensor.shape[0] - 1 : tensor.shape[0] + 1 + in.below(600);
      tensor.bytes.resize(row * tensor.shape[0]);
      return;
    }
    case 6:  // another number of dimensions
      if (tensor.shape.empty())
        tensor.shape = {1};
      else if (in.below(2))
        tensor.shape.pop_back();
      else
        tensor.shape.push_back(1);
      return;
    case 7:  // another type
      tensor.type = static_cast<Tensor::Type>(in.below(6));
  }
}

inline void change_state(Input& in, State& state) {
  for (size_t times = 1 + in.below(3); times-- > 0;) {
    auto tensor = state.begin();
    std::advance(tensor, static_cast<ptrdiff_t>(in.below(state.size())));
    const uint8_t how = in.byte();
    if (how == 0)
      state.erase(tensor);
    else if (how == 1)  // that of another field
      tensor->second = state.begin()->second;
    else
      change_tensor(in, tensor->second);
  }
}

}  // namespace sonline
