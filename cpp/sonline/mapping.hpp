// One row from a Python mapping: string or integer keys to numbers. A string value makes the
// feature "key=value" with the number 1, as a text column of a table does.
#pragma once

#include <nanobind/nanobind.h>

#include <cmath>
#include <string>
#include <vector>

#include "sonline/batch.hpp"
#include "sonline/hashing.hpp"
#include "sonline/names.hpp"

namespace sonline {

// How names become keys: exactly (bits < 0, through a NameTable) or hashed.
struct NameHashing {
  int bits;
  uint64_t seed;

  Key slot(std::string_view name) const {
    return hash_slot(name, static_cast<unsigned>(bits), seed);
  }
};

class MappingReader {
 public:
  // Checks and keeps the items; the mapping must outlive the calls below.
  void read(nanobind::handle mapping) {
    clear();
    add_row(mapping);
  }

  void read_all(nanobind::sequence mappings) {
    clear();
    const size_t rows = nanobind::len(mappings);
    for (size_t row = 0; row < rows; ++row) try {
        kept_.push_back(mappings[row]);
        add_row(kept_.back());
      } catch (const BadInput& error) {
        throw BadInput("X, row " + std::to_string(row) + ": " + error.what());
      }
  }

  // The rows with new names entered into the table (or hashed).
  Batch named(NameTable& names, NameHashing hashing) {
    return batch([&](std::string_view name) {
      return hashing.bits < 0 ? names.insert(name) | kNamed : hashing.slot(name);
    });
  }

  // The rows without names that the table does not know.
  Batch known(const NameTable& names, NameHashing hashing) {
    return batch([&](std::string_view name) {
      if (hashing.bits >= 0) return hashing.slot(name);
      const auto id = names.find(name);
      return id ? *id | kNamed : kUnknown;
    });
  }

 private:
  void clear() {
    items_.clear();
    spellings_.clear();
    kept_.clear();
    row_ends_.clear();
  }

  void add_row(nanobind::handle mapping) {
    if (PyDict_Check(mapping.ptr())) {
      PyObject *key, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(mapping.ptr(), &position, &key, &value)) add(key, value);
    } else {
      if (!PyMapping_Check(mapping.ptr()) || PySequence_Check(mapping.ptr()) > 1 ||
          !PyObject_HasAttrString(mapping.ptr(), "items"))
        throw BadInput("a row must be a mapping from features to numbers, got " +
                       type_of(mapping.ptr()));
      const auto items = nanobind::steal(PyMapping_Items(mapping.ptr()));
      if (!items.is_valid()) throw nanobind::python_error();
      kept_.push_back(items);
      const Py_ssize_t count = PyList_Size(items.ptr());
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = PyList_GetItem(items.ptr(), i);
        add(PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
      }
    }
    row_ends_.push_back(items_.size());
  }

  static constexpr Key kUnknown = ~Key{0};

  struct Item {
    const char* name;  // null: an integer key
    size_t length;
    Key key;
    double value;
  };

  static std::string type_of(PyObject* object) { return Py_TYPE(object)->tp_name; }
  static std::string repr(PyObject* object) {
    const auto text = nanobind::steal<nanobind::str>(PyObject_Repr(object));
    if (!text.is_valid()) throw nanobind::python_error();
    return text.c_str();
  }

  void add(PyObject* key, PyObject* value) {
    Item item{nullptr, 0, 0, 1.0};
    if (PyUnicode_Check(key)) {
      Py_ssize_t length;
      item.name = PyUnicode_AsUTF8AndSize(key, &length);
      if (!item.name) {
        PyErr_Clear();
        throw BadInput("feature name " + repr(key) + " cannot be encoded as UTF-8");
      }
      item.length = static_cast<size_t>(length);
    } else {
      item.key = integer_key(key);
    }
    if (PyFloat_CheckExact(value)) {
      item.value = PyFloat_AS_DOUBLE(value);
    } else if (PyUnicode_Check(value)) {
      const char* spelling = PyUnicode_AsUTF8(value);
      const char* name = item.name;
      if (!spelling) {
        PyErr_Clear();
        throw BadInput("feature " + repr(key) + ": its text cannot be encoded as UTF-8");
      }
      spellings_.push_back((name ? std::string(name, item.length) : std::to_string(item.key)) +
                           "=" + spelling);
      item.name = "";
      item.length = spellings_.size();  // a reference into spellings_, which may still move
      item.key = kUnknown;
    } else {
      item.value = PyFloat_AsDouble(value);
      if (item.value == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        throw BadInput("feature " + repr(key) + ": expected a number, got " + type_of(value) + " " +
                       repr(value));
      }
    }
    if (!std::isfinite(item.value))
      throw BadInput("feature " + repr(key) + ": " + repr(value) +
                     " is not a finite number; leave missing features out");
    items_.push_back(item);
  }

  static Key integer_key(PyObject* key) {
    const auto index = nanobind::steal(PyNumber_Index(key));
    if (!index.is_valid()) {
      PyErr_Clear();
      throw BadInput("a feature must be a string or an integer, got " + type_of(key) + " " +
                     repr(key));
    }
    const long long number = PyLong_AsLongLong(index.ptr());
    if (number < 0) {
      PyErr_Clear();
      throw BadInput("feature index " + repr(key) + " must be between 0 and 2^63 - 1");
    }
    return static_cast<Key>(number);
  }

  template <class KeyOf>
  Batch batch(KeyOf&& key_of) {
    keys_.clear();
    values_.clear();
    indptr_.assign(1, 0);
    size_t row = 0;
    const auto close_rows = [&](size_t position) {
      for (; row < row_ends_.size() && row_ends_[row] == position; ++row)
        indptr_.push_back(static_cast<int64_t>(keys_.size()));
    };
    close_rows(0);
    for (size_t i = 0; i < items_.size(); close_rows(++i)) {
      const Item& item = items_[i];
      std::string_view name;
      if (item.name && item.key == kUnknown)
        name = spellings_[item.length - 1];
      else if (item.name)
        name = {item.name, item.length};
      const Key key = item.name ? key_of(name) : item.key;
      if (key == kUnknown) continue;
      keys_.push_back(key);
      values_.push_back(item.value);
    }
    Batch batch;
    batch.rows = row_ends_.size();
    batch.index_type = Batch::Index::u64;
    batch.values = values_.data();
    batch.indices = keys_.data();
    batch.indptr = indptr_.data();
    batch.stored = keys_.size();
    return batch;
  }

  std::vector<Item> items_;
  std::vector<std::string> spellings_;
  std::vector<Key> keys_;
  std::vector<double> values_;
  std::vector<int64_t> indptr_;
  std::vector<size_t> row_ends_;        // positions in items_
  std::vector<nanobind::object> kept_;  // what the names point into
};

}  // namespace sonline
