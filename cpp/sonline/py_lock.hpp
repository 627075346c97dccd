// The one lock of a model, taken so that it cannot wait for Python while Python waits for it.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "sonline/batch.hpp"

namespace sonline {

// Counts the forks that led to this process.
class Forks {
 public:
  static unsigned count() { return count_; }
  static void watch() {
    pthread_atfork(nullptr, nullptr, [] { ++count_; });
  }

 private:
  static inline std::atomic<unsigned> count_ = 0;
};

class ModelMutex {
 public:
  // With the GIL held: a thread that waits releases the GIL, for the owner may need it (reading a
  // mapping can run Python code). A thread that holds the model takes it once more, for one call.
  void lock() {
    if (owner_ == std::this_thread::get_id()) {
      if (held_ == 0 || in_call_) refuse();
      in_call_ = true;
      return;
    }
    wait();
  }

  void unlock() {
    if (in_call_) {
      in_call_ = false;
      return;
    }
    owner_ = std::thread::id();
    mutex_.unlock();
  }

  // For several calls between which no other thread may use the model. It may be held already,
  // unless `alone`.
  void hold(bool alone) {
    if (!is_held())
      wait();
    else if (alone || held_ == 0 || in_call_)
      refuse();
    ++held_;
  }

  void release() {
    if (--held_ == 0) unlock();
  }

  // By this thread.
  bool is_held() const { return owner_ == std::this_thread::get_id(); }

  [[noreturn]] static void refuse() {
    throw BadInput("X: a row, or a signal, called back into the learner that is at work");
  }

 private:
  void wait() {
    if (!mutex_.try_lock()) {
      if (forks_ != Forks::count())  // its owner is a thread of the parent, and not here
        throw BadInput(
            "this process was forked while another thread used the learner, so it cannot be used "
            "here: load it from a file, or fork before threads start to learn");
      nanobind::gil_scoped_release unlocked;
      mutex_.lock();
    }
    owner_ = std::this_thread::get_id();
    forks_ = Forks::count();
  }

  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;
  std::atomic<unsigned> forks_ = 0;
  // Only the owner reads and writes these.
  size_t held_ = 0;
  bool in_call_ = false;
};

}  // namespace sonline
