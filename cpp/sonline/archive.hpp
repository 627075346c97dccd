// Saving and restoring state: every part of a model lists its fields once, in
// `template <class Archive> void state(Archive& archive)`, and that list serves both directions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "sonline/matrix.hpp"

namespace sonline {

struct Tensor {
  enum class Type { f32, f64, i64, u64, u32, u8 } type;
  std::vector<size_t> shape;
  std::vector<uint8_t> bytes;

  bool finite() const {
    return type == Type::f32 ? all_finite<float>() : type != Type::f64 || all_finite<double>();
  }

 private:
  template <class T>
  bool all_finite() const {
    const auto* values = reinterpret_cast<const T*>(bytes.data());
    T check = 0;  // becomes NaN at the first that is not finite; vector code
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) check += values[i] * 0;
    return check == 0;
  }
};

using State = std::map<std::string, Tensor>;

constexpr int64_t kLargestCount = int64_t{1} << 62;  // all whole numbers are counts

template <class T>
constexpr Tensor::Type tensor_type() {
  if constexpr (std::is_same_v<T, float>) return Tensor::Type::f32;
  if constexpr (std::is_same_v<T, double>) return Tensor::Type::f64;
  if constexpr (std::is_same_v<T, int64_t>) return Tensor::Type::i64;
  if constexpr (std::is_same_v<T, uint64_t>) return Tensor::Type::u64;
  if constexpr (std::is_same_v<T, uint32_t>) return Tensor::Type::u32;
  if constexpr (std::is_same_v<T, uint8_t> || std::is_same_v<T, char>) return Tensor::Type::u8;
}

// Fields of a part that a model has several times get a prefix, e.g. archive.within("2.", …).
class Prefixed {
 public:
  template <class Use>
  void within(const std::string& prefix, Use&& use) {
    const std::string before = prefix_;
    prefix_ += prefix;
    use();
    prefix_ = before;
  }

 protected:
  std::string full(const std::string& name) const { return prefix_ + name; }

 private:
  std::string prefix_;
};

class StateWriter : public Prefixed {
 public:
  static constexpr bool reading = false;
  State state;

  template <class T>
  void scalar(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, double>)
      put(name, &value, {});
    else {
      // No count of rows grows this large, but a forged file may contain one that is.
      const auto wide = std::min(static_cast<int64_t>(value), kLargestCount);
      put(name, &wide, {});
    }
  }

  template <class T>
  void array(const char* name, const std::vector<T>& values) {
    put(name, values.data(), {values.size()});
  }

  template <class T>
  void array_of(size_t, const char* name, const std::vector<T>& values) {
    array(name, values);
  }

  void matrix(const char* name, const Matrix& m) {
    put(name, m.values().data(), {m.rows(), m.cols()});
  }

  Matrix matrix_of(const char*, size_t rows, size_t cols) const { return Matrix(rows, cols); }

  template <class T>
  void put(const char* name, const T* data, std::vector<size_t> shape) {
    size_t count = 1;
    for (size_t n : shape) count *= n;
    Tensor tensor{tensor_type<T>(), std::move(shape), std::vector<uint8_t>(count * sizeof(T))};
    if (count) std::memcpy(tensor.bytes.data(), data, tensor.bytes.size());
    put(name, std::move(tensor));
  }
  // Changes the sign of an array of doubles that was written.
  void negate(const char* name) {
    Tensor& tensor = state.at(full(name));
    auto* values = reinterpret_cast<double*>(tensor.bytes.data());
    for (size_t i = 0; i < tensor.bytes.size() / sizeof(double); ++i) values[i] = -values[i];
  }
  void put(const char* name, Tensor&& tensor) { state[full(name)] = std::move(tensor); }
};

// Throws std::invalid_argument, with the name of the field, if something is missing or misshapen.
class StateReader : public Prefixed {
 public:
  static constexpr bool reading = true;
  explicit StateReader(const State& state) : state_(state) {}

  template <class T>
  void scalar(const char* name, T& value) {
    if constexpr (std::is_same_v<T, double>) {
      std::memcpy(&value, get<double>(name, 0).bytes.data(), sizeof value);
      check_finite(name, &value, 1);
    } else {
      int64_t wide;
      std::memcpy(&wide, get<int64_t>(name, 0).bytes.data(), sizeof wide);
      value = static_cast<T>(wide);
      if (wide < 0 || wide > kLargestCount || static_cast<int64_t>(value) != wide)
        fail(full(name), "is out of range");
    }
  }

  // Whether there is such a field.
  bool has(const char* name) const { return state_.contains(full(name)); }

  // An array of the length that `values` has already.
  template <class T>
  void array(const char* name, std::vector<T>& values) {
    const Tensor& tensor = get<T>(name, 1);
    if (tensor.shape[0] != values.size()) fail(full(name), "has the wrong length");
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    check_finite(name, values.data(), values.size());
  }

  // An array of any length.
  template <class T>
  std::vector<T> any_array(const char* name) {
    std::vector<T> values(get<T>(name, 1).shape[0]);
    array(name, values);
    return values;
  }

  // Zeros, for a matrix that the saved state has in this shape: nothing is allocated before that is
  // checked, so that no count in a file can ask for more memory than the file has.
  Matrix matrix_of(const char* name, size_t rows, size_t cols) const {
    check_shape(name, get<double>(name, 2), rows, cols);
    return Matrix(rows, cols);
  }

  // An array whose length other fields of the file imply: it is allocated only if it is there.
  template <class T>
  void array_of(size_t length, const char* name, std::vector<T>& values) {
    if (get<T>(name, 1).shape[0] != length) fail(full(name), "has the wrong length");
    values.resize(length);
    array(name, values);
  }

  void matrix(const char* name, Matrix& m) {
    const Tensor& tensor = get<double>(name, 2);
    check_shape(name, tensor, m.rows(), m.cols());
    if (!tensor.bytes.empty())
      std::memcpy(m.values().data(), tensor.bytes.data(), tensor.bytes.size());
    check_finite(name, m.values().data(), m.values().size());
  }

  template <class T>
  const Tensor& get(const char* name, size_t dimensions) const {
    const auto field = state_.find(full(name));
    if (field == state_.end()) fail(full(name), "is missing");
    const Tensor& tensor = field->second;
    if (tensor.type != tensor_type<T>()) fail(full(name), "has the wrong type");
    if (tensor.shape.size() != dimensions) fail(full(name), "has the wrong number of dimensions");
    size_t count = 1;
    for (size_t n : tensor.shape) count *= n;
    if (tensor.bytes.size() != count * sizeof(T)) fail(full(name), "has the wrong size");
    return tensor;
  }

  template <class T>
  void check_finite(const char* name, const T* values, size_t count) const {
    if constexpr (std::is_floating_point_v<T>)
      for (size_t i = 0; i < count; ++i)
        if (!std::isfinite(values[i])) fail(full(name), "holds numbers that are not finite");
  }

  void check_shape(const char* name, const Tensor& tensor, size_t rows, size_t cols) const {
    if (tensor.shape[0] != rows || tensor.shape[1] != cols) fail(full(name), "has the wrong shape");
  }

  [[noreturn]] static void fail(const std::string& name, const std::string& what) {
    throw std::invalid_argument("field '" + name + "' " + what);
  }

 private:
  const State& state_;
};

}  // namespace sonline
