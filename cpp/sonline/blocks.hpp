// The per-feature numbers: one block of `stride` numbers per slot, in chunks that never move, so
// that growth copies nothing and pointers to blocks stay valid.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "sonline/archive.hpp"
#include "sonline/features.hpp"

namespace sonline {

template <class T>
class BlockStore {
 public:
  explicit BlockStore(size_t stride) : stride_(stride) {}

  size_t stride() const { return stride_; }

  T* at(Slot slot) const {
    return chunks_[slot >> kChunkBits].get() + (slot & kChunkMask) * stride_;
  }

  // The blocks of many slots at once; prefetches them.
  void locate(const Slot* slots, size_t n, T** blocks) const {
    const size_t bytes = stride_ * sizeof(T);
    kLine % bytes == 0 ? locate_within<0>(slots, n, blocks, 0)
                       : locate_within<1>(slots, n, blocks, bytes - 1);
  }

  // Makes room for slots below `count`, filled with zeros.
  void reserve(size_t count) {
    while (chunks_.size() << kChunkBits < count) {
      const size_t bytes = (stride_ * sizeof(T) << kChunkBits);
      T* chunk = static_cast<T*>(::operator new(bytes, std::align_val_t{kLine}));
      std::memset(static_cast<void*>(chunk), 0, bytes);
      chunks_.emplace_back(chunk);
    }
  }

  template <class Archive>
  [[gnu::cold]] void state(Archive& archive, const char* name, size_t slots) {
    if (stride_ == 0) return;
    const size_t bytes = stride_ * sizeof(T);
    if constexpr (Archive::reading) {
      const auto& stored = archive.template get<T>(name, 2);
      archive.check_shape(name, stored, slots, stride_);
      *this = BlockStore(stride_);
      reserve(slots);
      for (Slot slot = 0; slot < slots; ++slot) {
        std::memcpy(at(slot), stored.bytes.data() + slot * bytes, bytes);
        archive.check_finite(name, at(slot), stride_);
      }
    } else {
      Tensor stored{tensor_type<T>(), {slots, stride_}, {}};
      stored.bytes.resize(slots * bytes);
      for (Slot slot = 0; slot < slots; ++slot)
        std::memcpy(stored.bytes.data() + slot * bytes, at(slot), bytes);
      archive.put(name, std::move(stored));
    }
  }

  size_t bytes() const { return chunks_.size() * (stride_ * sizeof(T) << kChunkBits); }

 private:
  // A block may reach into a second cache line, unless a line holds a whole number of them.
  template <bool two_lines>
  void locate_within(const Slot* slots, size_t n, T** blocks, size_t last) const {
    const auto* chunks = chunks_.data();
    const size_t stride = stride_;
#pragma GCC unroll 4
    for (size_t i = 0; i < n; ++i) {
      T* block = chunks[slots[i] >> kChunkBits].get() + (slots[i] & kChunkMask) * stride;
      blocks[i] = block;
      __builtin_prefetch(block, 1);
      if (two_lines) __builtin_prefetch(reinterpret_cast<const char*>(block) + last, 1);
    }
  }

#ifdef SONLINE_CHUNK_BITS  // fuzzing: small chunks show an overrun, and cost less
  static constexpr size_t kChunkBits = SONLINE_CHUNK_BITS;
#else
  static constexpr size_t kChunkBits = 10;
#endif
  static constexpr Slot kChunkMask = (Slot{1} << kChunkBits) - 1;
  static constexpr size_t kLine = 64;  // a block of 64 bytes is then one cache line

  struct Free {
    void operator()(T* chunk) const { ::operator delete(chunk, std::align_val_t{kLine}); }
  };

  size_t stride_;
  std::vector<std::unique_ptr<T[], Free>> chunks_;
};

}  // namespace sonline
