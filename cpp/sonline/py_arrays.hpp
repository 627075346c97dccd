// NumPy arrays as batches of the core (borrowed) and as tensors (copied).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/batch.hpp"

namespace sonline {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutDoubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A NumPy array that owns a copy of `values`.
template <class T>
nb::ndarray<nb::numpy, T> to_numpy(const T* values, std::vector<size_t> shape) {
  size_t count = 1;
  for (size_t n : shape) count *= n;
  auto owned = std::make_unique<T[]>(std::max<size_t>(count, 1));
  if (count) std::memcpy(owned.get(), values, count * sizeof(T));
  T* data = owned.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner);
}

// A NumPy array that owns the bytes of the tensor.
inline nb::object to_numpy(Tensor&& tensor) {
  const auto convert = [&]<class T>(T) {
    auto* owned = new std::vector<uint8_t>(std::move(tensor.bytes));
    nb::capsule owner(owned,
                      [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
    if (owned->empty()) owned->resize(sizeof(T));  // an address that exists
    return nb::cast(
        nb::ndarray<nb::numpy, T>(owned->data(), tensor.shape.size(), tensor.shape.data(), owner));
  };
  switch (tensor.type) {
    case Tensor::Type::f32:
      return convert(float{});
    case Tensor::Type::f64:
      return convert(double{});
    case Tensor::Type::i64:
      return convert(int64_t{});
    case Tensor::Type::u64:
      return convert(uint64_t{});
    case Tensor::Type::u32:
      return convert(uint32_t{});
    case Tensor::Type::u8:
      return convert(uint8_t{});
  }
  return nb::none();
}

inline Tensor from_numpy(const std::string& name, const Array& array) {
  Tensor tensor;
  if (array.dtype() == nb::dtype<float>())
    tensor.type = Tensor::Type::f32;
  else if (array.dtype() == nb::dtype<double>())
    tensor.type = Tensor::Type::f64;
  else if (array.dtype() == nb::dtype<int64_t>())
    tensor.type = Tensor::Type::i64;
  else if (array.dtype() == nb::dtype<uint64_t>())
    tensor.type = Tensor::Type::u64;
  else if (array.dtype() == nb::dtype<uint32_t>())
    tensor.type = Tensor::Type::u32;
  else if (array.dtype() == nb::dtype<uint8_t>())
    tensor.type = Tensor::Type::u8;
  else
    throw std::invalid_argument("field '" + name + "' has an unknown type");
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.size() > 0 && array.shape(i) > 1 && array.stride(i) != expected)
      throw std::invalid_argument("field '" + name + "' is not contiguous");
    expected *= static_cast<int64_t>(array.shape(i));
    tensor.shape.insert(tensor.shape.begin(), array.shape(i));
  }
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  tensor.bytes.assign(bytes, bytes + array.nbytes());
  return tensor;
}

// A batch, and the arrays that it borrows from.
struct HeldBatch {
  std::vector<Array> arrays;
  Batch batch;
};

inline void set_values(Batch& batch, const Array& values) {
  if (values.dtype() == nb::dtype<float>())
    batch.value_type = Batch::Number::f32;
  else if (values.dtype() == nb::dtype<double>())
    batch.value_type = Batch::Number::f64;
  else
    throw BadInput("X: values must be float32 or float64");
  batch.values = values.data();
}

// `cols` is the number of columns that indices must stay below; 0 is none.
inline Batch csr_batch(const Array& values, const Array& indices, const Array& indptr,
                       size_t cols) {
  Batch batch;
  set_values(batch, values);
  if (indices.dtype() == nb::dtype<int32_t>())
    batch.index_type = Batch::Index::i32;
  else if (indices.dtype() == nb::dtype<int64_t>())
    batch.index_type = Batch::Index::i64;
  else if (indices.dtype() == nb::dtype<uint64_t>())
    batch.index_type = Batch::Index::u64;
  else
    throw BadInput("X: indices must be int32, int64 or uint64");
  const bool narrow = batch.index_type == Batch::Index::i32;
  if (indptr.dtype() != (narrow ? nb::dtype<int32_t>() : nb::dtype<int64_t>()))
    throw BadInput("X: indptr must have the type of the indices");
  if (indptr.ndim() != 1 || indptr.shape(0) < 1 || values.ndim() != 1 || indices.ndim() != 1 ||
      values.shape(0) != indices.shape(0))
    throw BadInput("X: data, indices and indptr do not fit together");
  batch.rows = indptr.shape(0) - 1;
  batch.cols = cols;
  batch.stored = values.shape(0);
  batch.indices = indices.data();
  batch.indptr = indptr.data();
  return batch;
}

inline Batch dense_batch(const Array& values) {
  Batch batch;
  set_values(batch, values);
  if (values.ndim() != 2) throw BadInput("X must have two dimensions");
  batch.rows = values.shape(0);
  batch.cols = values.shape(1);
  batch.table = true;
  batch.row_stride = values.stride(0);
  batch.col_stride = values.stride(1);
  return batch;
}

// Rows as Python passes them: (values,) if they are dense, (values, indices, indptr, columns,
// table) if they are sparse.
inline HeldBatch batch_of(const nb::tuple& rows) {
  HeldBatch held;
  for (size_t i = 0; i < std::min<size_t>(nb::len(rows), 3); ++i)
    held.arrays.push_back(nb::cast<Array>(rows[i]));
  const auto& arrays = held.arrays;
  held.batch = arrays.size() == 1
                   ? dense_batch(arrays.at(0))
                   : csr_batch(arrays.at(0), arrays.at(1), arrays.at(2), nb::cast<size_t>(rows[3]));
  if (arrays.size() > 1) held.batch.table = nb::cast<bool>(rows[4]);
  return held;
}

}  // namespace sonline
