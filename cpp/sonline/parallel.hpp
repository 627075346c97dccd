// A loop whose turns are independent, on several threads.
#pragma once

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace sonline {

// Calls work(i) for all i < count on at most `threads` threads, this one included. Threads live for
// one call, so nothing is left behind that a fork could break. If turns fail, the error of the
// first of them (in the order of i) is thrown after all have ended.
template <class Work>
void for_each_index(size_t count, size_t threads, Work&& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i; (i = next++) < count;) try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < threads && i < count; ++i) helpers.emplace_back(run);
    } catch (const std::system_error&) {  // the system starts no more threads: continue with these
    }
    run();
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sonline
