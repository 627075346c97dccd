// Growing arrays without initialisation, columns that stay empty if not needed, and strings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sonline::text {

// Like std::vector for plain numbers, but growing leaves the new elements unset: a parser reserves
// room for the most that a line can hold, writes through a pointer, and then sets the size.
template <class T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  Column(Column&& other) noexcept { swap(other); }
  Column& operator=(Column&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Column() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t capacity) {
    if (capacity > capacity_) grow(std::max(capacity, capacity_ + capacity_ / 2));
  }
  // `size` is at most the reserved capacity. Elements that were never written are unset.
  void set_size(size_t size) { size_ = size; }
  void push_back(T value) {
    if (size_ == capacity_) reserve(size_ + 16);
    data_[size_++] = value;
  }

 private:
  void swap(Column& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  void grow(size_t capacity) {
    if (capacity > PTRDIFF_MAX / sizeof(T)) throw std::bad_alloc();
    void* data = std::realloc(data_, capacity * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// One number per row, but empty as long as every row has the default.
template <class T>
struct OptionalColumn {
  T absent;
  Column<T> column = {};

  // To be called once for each row, with the number of rows before it.
  void append(size_t rows_before, T value) {
    if (value == absent && column.empty()) return;
    while (column.size() < rows_before) column.push_back(absent);
    column.push_back(value);
  }
};

// Byte strings in one buffer, with the offset of the end of each.
struct Strings {
  std::string blob;
  std::vector<int64_t> ends = {0};

  size_t size() const { return ends.size() - 1; }
  void push_back(std::string_view text) {
    blob.append(text);
    ends.push_back(static_cast<int64_t>(blob.size()));
  }
  std::string_view operator[](size_t i) const {
    return std::string_view(blob).substr(static_cast<size_t>(ends[i]),
                                         static_cast<size_t>(ends[i + 1] - ends[i]));
  }
};

}  // namespace sonline::text
