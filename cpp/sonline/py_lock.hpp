// The one lock of a model, taken so that it cannot wait for Python while Python waits for it.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "sonline/batch.hpp"

namespace sonline {

class ModelMutex {
 public:
  // With the GIL held: a thread that waits lets the GIL go, for the owner may need it (reading a
  // mapping can run Python code).
  void lock() {
    if (!mutex_.try_lock()) {
      if (owner_ == std::this_thread::get_id())
        throw BadInput("X: reading a row called back into the learner that reads it");
      nanobind::gil_scoped_release unlocked;
      mutex_.lock();
    }
    owner_ = std::this_thread::get_id();
  }

  void unlock() {
    owner_ = std::thread::id();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;
};

}  // namespace sonline
