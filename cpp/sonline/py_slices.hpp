// A long batch in slices of rows, without the GIL. Signals are checked between slices, so Ctrl-C
// does not wait for the end. Rows of finished slices stay learned; the exception has their number.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "sonline/batch.hpp"

namespace sonline {

// Python handles signals on the main thread only.
inline bool on_main_thread() {
  const auto main = nanobind::module_::import_("threading").attr("main_thread")().attr("ident");
  return nanobind::cast<unsigned long>(main) == PyThread_get_thread_ident();
}

// Raises the exception of a signal handler, with the number of rows that are done.
[[noreturn]] inline void raise_interrupt(size_t done, size_t rows, const char* what) {
  nanobind::python_error error;
  nanobind::handle value = error.value();
  nanobind::setattr(value, "rows_done", nanobind::int_(done));
  const auto note =
      std::to_string(done) + " of " + std::to_string(rows) + " rows have been " + what;
  value.attr("add_note")(note.c_str());
  throw nanobind::python_error(error);
}

// Calls work(slice, first row) for consecutive slices of a batch that has been checked.
template <class Work>
void in_slices(const Batch& batch, const char* what, Work&& work) {
  constexpr size_t kSliceNumbers = 1 << 17;  // numbers: some milliseconds
  using Clock = std::chrono::steady_clock;
  const size_t numbers = std::max<size_t>(batch.indptr ? batch.stored : batch.rows * batch.cols, 1);
  size_t size = batch.rows;
  if (batch.rows > 1 && numbers > kSliceNumbers && on_main_thread())
    size = std::max<size_t>(kSliceNumbers / std::max<size_t>(numbers / batch.rows, 1), 1);
  size_t first = 0;
  do {
    const auto started = Clock::now();
    const size_t count = std::min(size, batch.rows - first);
    {
      nanobind::gil_scoped_release unlocked;
      work(slice(batch, first, count), first);
    }
    first += count;
    if (first < batch.rows && PyErr_CheckSignals() != 0) raise_interrupt(first, batch.rows, what);
    const std::chrono::duration<double> seconds = Clock::now() - started;
    if (seconds.count() < 0.02) size *= 2;
    if (seconds.count() > 0.1) size = std::max<size_t>(size / 2, 1);
  } while (first < batch.rows);
}

}  // namespace sonline
