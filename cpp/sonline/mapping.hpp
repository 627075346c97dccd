// Rows from Python mappings: string or integer keys to numbers. A string value makes the feature
// "key=value" with the number 1, as a text column of a table does; a date, or the text of one,
// makes the features that a column of dates has. None and NaN are missing values.
//
// Everything in a row is checked before a new name is entered, so a bad row changes nothing.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sonline/batch.hpp"
#include "sonline/config.hpp"
#include "sonline/hashing.hpp"
#include "sonline/names.hpp"
#include "sonline/text/cells.hpp"
#include "sonline/text/options.hpp"

namespace sonline {

// How names become keys: exactly (bits < 0, through the table) or hashed.
struct NameKeys {
  static constexpr Key kUnknown = ~Key{0};

  NameTable table;
  int bits;
  uint64_t seed;

  Key find(std::string_view name) const {
    if (bits >= 0) return hash_slot(name, static_cast<unsigned>(bits), seed);
    const auto id = table.find(name);
    return id ? *id | kNamed : kUnknown;
  }

  Key find_or_add(std::string_view name) {
    return bits >= 0 ? find(name) : table.insert(name) | kNamed;
  }
};

// A mapping that cannot be used: its number among several, and the feature that is wrong.
struct BadRow : BadInput {
  using BadInput::BadInput;

  std::optional<size_t> row;
  nanobind::object feature = nanobind::none();
};

class MappingReader {
 public:
  // Names belong to `keys`, which must outlive the reader. Values beyond `largest` are refused.
  MappingReader(NameKeys& keys, double largest, Missing missing)
      : names_(keys),
        largest_(largest),
        missing_(missing),
        datetime64_(nanobind::module_::import_("numpy").attr("datetime64")) {}

  // What the reader remembers of earlier rows; to be called when the names have been replaced.
  void forget() {
    same_keys_ = 0;
    recent_.clear();
    seen_.clear();
  }

  // Columns that rows must not have, all of a group together, and what the error says then.
  using Refused = std::vector<std::pair<std::vector<std::string>, std::string>>;
  void refuse(Refused groups) { refused_ = std::move(groups); }

  // Columns whose texts are categories, also if they are dates.
  using Columns = std::set<std::string, std::less<>>;
  void read_as_text(Columns columns) { texts_ = std::move(columns); }

  // Both check the rows and look their names up. The objects must stay as they are until the batch
  // has been made. The second says how many there were: a sequence may not say so twice.
  void read(nanobind::handle mapping) {
    if (same_keys_ != 0 && read_again(mapping.ptr())) return;
    const uint64_t before = same_keys_;
    const size_t size = keys_.size();
    clear();
    add_row(mapping);
    if (all_recent_)
      same_keys_ = before != 0 && keys_.size() == size ? before : ++rows_with_others_;
  }

  size_t read_all(nanobind::sequence mappings) {
    clear();
    const size_t rows = nanobind::len(mappings);
    for (size_t row = 0; row < rows; ++row) try {
        kept_.push_back(mappings[row]);
        add_row(kept_.back());
      } catch (BadRow& error) {
        error.row = row;
        throw;
      }
    return rows;
  }

  // The rows, with new names entered.
  Batch named() {
    for (const New& added : new_) keys_[added.item] = names_.find_or_add(added.name);
    return batch();
  }

  // The rows, with new names as features that no model has.
  Batch known() { return batch(); }

 private:
  // Streams repeat their keys, mostly in the same order and as the same objects (rows of a CSV file
  // or a data frame), otherwise as new strings (JSON). So there are two caches: one by position in
  // the row, and one by the hash that a dict stores with its keys, for rows with other features or
  // another order. The same object, or equal text, saves hashing the name. An entry holds a
  // reference to its key: otherwise the address could be reused for another name.
  class Recent {
   public:
    Key id() const { return id_; }

    bool holds(PyObject* key) const { return held_.ptr() == key; }
    bool is(PyObject* key) const {
      return holds(key) || (PyUnicode_CheckExact(key) && hash_of(key) == hash_ &&
                            held_.is_valid() && same_text(held_.ptr(), key));
    }

    // Called with a key that differs. The entry is replaced only after many misses: releasing an
    // object costs more than a lookup, and most of these keys occur once.
    void miss(PyObject* key, Key id) {
      if (held_.is_valid() && ++misses_ % kPatience != 0) return;
      held_ = nanobind::borrow(key);
      hash_ = hash_of(key);
      id_ = id;
    }

   private:
    static constexpr uint32_t kPatience = 16;

    nanobind::object held_;  // exactly a str
    Py_hash_t hash_ = -1;
    Key id_ = NameKeys::kUnknown;
    uint32_t misses_ = 0;
  };

  struct New {
    size_t item;
    std::string name;
  };

  void clear() {
    same_keys_ = 0;
    all_recent_ = false;
    keys_.clear();
    values_.clear();
    new_.clear();
    kept_.clear();
    indptr_.assign(1, 0);
  }

  void check_columns(PyObject* mapping) const {
    for (const auto& [columns, message] : refused_) {
      const auto has = [&](const std::string& name) {
        return PyMapping_HasKeyString(mapping, name.c_str()) != 0;
      };
      if (!std::all_of(columns.begin(), columns.end(), has)) continue;
      BadRow error(message);
      if (columns.size() == 1) error.feature = nanobind::str(columns[0].c_str());
      throw error;
    }
  }

  // Reads the values of a dict whose keys are the objects that the last row had, in their order:
  // its keys are still there. Otherwise false, and the row is to be read from its beginning.
  bool read_again(PyObject* dict) {
    const size_t n = keys_.size();
    if (!PyDict_CheckExact(dict) || dict_size(dict) != n || !refused_.empty()) return false;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    const Recent* recent = recent_.data();
    double* values = values_.data();
    for (size_t i = 0; i < n; ++i) {
      PyDict_Next(dict, &position, &key, &value);
      if (!recent[i].holds(key) || !PyFloat_CheckExact(value)) return false;
      values[i] = float_value(value);
    }
    int beyond = 0;  // an int and no early exit: the loop becomes vector code
    for (size_t i = 0; i < n; ++i) beyond |= !(std::fabs(values[i]) <= largest_);
    return !beyond;
  }

  void add_row(nanobind::handle mapping) {
    if (PyDict_Check(mapping.ptr())) {
      add_dict(mapping.ptr());
    } else {
      kept_.push_back(of_rows("columns", "one_row")(mapping));  // of a frame, a dict
      add_items(kept_.back().ptr());
    }
    indptr_.push_back(static_cast<int64_t>(keys_.size()));
  }

  void add_items(PyObject* mapping) {
    if (PyDict_Check(mapping)) return add_dict(mapping);
    if (!PyObject_HasAttrString(mapping, "items"))
      throw BadRow("a row must be a mapping from features to numbers, got " + type_of(mapping) +
                   "; a row of an array is for learn([row], [label]) or predict([row])");
    if (!refused_.empty()) check_columns(mapping);
    const auto items = nanobind::steal(PyMapping_Items(mapping));
    if (!items.is_valid()) throw nanobind::python_error();
    kept_.push_back(items);
    const auto count = static_cast<size_t>(PyList_Size(items.ptr()));
    for (size_t index = 0; index < count; ++index) {
      PyObject* item = PyList_GetItem(items.ptr(), static_cast<Py_ssize_t>(index));
      if (!PyTuple_Check(item) || PyTuple_Size(item) != 2)
        throw BadRow("items() of a row must give (feature, number) tuples, got " + type_of(item) +
                     " " + repr(item));
      add(index, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
    }
  }

  void add_dict(PyObject* dict) {
    if (!refused_.empty()) check_columns(dict);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    size_t index = 0;
    const size_t start = keys_.size(), familiar = std::min(dict_size(dict), recent_.size());
    keys_.resize(start + familiar);
    values_.resize(start + familiar);
    Key* keys = keys_.data() + start;
    double* values = values_.data() + start;
    const Recent* recent = recent_.data();
    const double largest = largest_;
    bool more = true;
    // While the keys are those of the rows before, only the values have to be read.
    while (index < familiar && (more = PyDict_Next(dict, &position, &key, &value))) {
      if (!PyFloat_CheckExact(value) || !recent[index].is(key)) break;
      const double number = float_value(value);
      if (!(std::fabs(number) <= largest)) break;
      keys[index] = recent[index].id();
      values[index++] = number;
    }
    keys_.resize(start + index);
    values_.resize(start + index);
    all_recent_ = index == dict_size(dict);
    if (index < familiar && more) add(index++, key, value);
    while (more && PyDict_Next(dict, &position, &key, &value)) add(index++, key, value);
  }

  static size_t dict_size(PyObject* dict) { return static_cast<size_t>(PyDict_Size(dict)); }

  void add(size_t index, PyObject* key, PyObject* value) {
    // Code of the value's class may change the mapping.
    const auto held_key = nanobind::borrow(key), held_value = nanobind::borrow(value);
    try {
      if (PyUnicode_Check(value)) return add_text(key, value);
      double number;
      if (PyFloat_CheckExact(value)) {
        number = float_value(value);
      } else if (Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(datetime64_.ptr())) {
        return add_other(key, value);  // it would be a number
      } else {
        number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred()) {
          const bool overflows = PyErr_ExceptionMatches(PyExc_OverflowError);
          clear_error();
          if (overflows)
            throw BadRow("feature " + repr(key) + ": " + repr(value) + too_large(largest_));
          return add_other(key, value);
        }
      }
      if (std::isnan(number)) return add_missing(key);
      if (!(std::fabs(number) <= largest_)) refuse(key, number);
      look_up(index, key);
      values_.push_back(number);
    } catch (BadRow& error) {
      error.feature = held_key;
      throw;
    }
  }

  // Dates become text, and what is empty for pandas or NumPy is missing.
  void add_other(PyObject* key, PyObject* value) {
    const nanobind::object plain = of_rows("mappings", "plain_value")(nanobind::borrow(value));
    if (plain.is_none()) return add_missing(key);
    if (PyUnicode_Check(plain.ptr())) return add_text(key, plain.ptr());
    throw BadRow("feature " + repr(key) + ": expected a number, got " + type_of(value) + " " +
                 repr(value));
  }

  void add_missing(PyObject* key) {
    if (missing_ == Missing::refuse)
      throw BadRow("feature " + repr(key) +
                   " has no value; fill it, or use missing='absent' (--missing absent)");
    if (missing_ == Missing::mark) add_word(key, text::kMissingWord);
  }

  static nanobind::object of_rows(const char* module, const char* function) {
    return nanobind::module_::import_((std::string("sonline.rows.") + module).c_str())
        .attr(function);
  }

  void look_up(size_t index, PyObject* key) {
    if (!PyUnicode_CheckExact(key)) return look_up_other(key);
    if (index < recent_.size() && recent_[index].is(key)) {
      keys_.push_back(recent_[index].id());
      return;
    }
    if (seen_.empty()) seen_.resize(size_t{1} << kSeenBits);
    Recent& seen = seen_[static_cast<size_t>(hash_of(key)) & (seen_.size() - 1)];
    const bool known = seen.is(key);
    std::string_view name;
    if (!known) name = utf8(key);
    const Key id = known ? seen.id() : names_.find(name);
    keys_.push_back(id);
    if (id == NameKeys::kUnknown) {
      new_.push_back({keys_.size() - 1, std::string(name)});
      return;
    }
    if (!known) seen.miss(key, id);
    if (index >= recent_.size()) recent_.resize(index + 1);
    recent_[index].miss(key, id);
  }

  // A subclass of str may mean something else the next time, so it is not remembered.
  void look_up_other(PyObject* key) {
    if (!has_name(key)) {
      keys_.push_back(integer_key(key));
      return;
    }
    std::string name = name_of(key);
    const Key id = names_.find(name);
    if (id == NameKeys::kUnknown) new_.push_back({keys_.size(), std::move(name)});
    keys_.push_back(id);
  }

  // Tuples are names, too, such as those of River's n-grams.
  static bool has_name(PyObject* key) { return PyUnicode_Check(key) || PyTuple_Check(key); }
  static std::string name_of(PyObject* key) {
    if (PyUnicode_Check(key)) return std::string(utf8(key));
    const auto text = nanobind::steal(PyObject_Str(key));
    if (!text.is_valid()) throw nanobind::python_error();
    return std::string(utf8(text.ptr()));
  }

#ifdef Py_LIMITED_API  // One module for all versions of Python: nothing of the layout of objects.
  static double float_value(PyObject* value) { return PyFloat_AsDouble(value); }
  static Py_hash_t hash_of(PyObject* text) { return PyObject_Hash(text); }
  static bool same_text(PyObject* one, PyObject* other) {
    return PyUnicode_Compare(one, other) == 0;
  }
#else
  static double float_value(PyObject* value) { return PyFloat_AS_DOUBLE(value); }
  // Of an object that is exactly a str. Keys of a dict have it with them; -1 otherwise.
  static Py_hash_t hash_of(PyObject* text) { return reinterpret_cast<PyASCIIObject*>(text)->hash; }
  static bool same_text(PyObject* one, PyObject* other) {
    const auto length = PyUnicode_GET_LENGTH(one);
    return length == PyUnicode_GET_LENGTH(other) && PyUnicode_KIND(one) == PyUnicode_KIND(other) &&
           std::memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other),
                       static_cast<size_t>(length) * PyUnicode_KIND(one)) == 0;
  }
#endif

  void add_text(PyObject* key, PyObject* value) {
    const std::string_view word = utf8(value);
    double days;
    if (has_name(key) && text::read_date(word, days))
      if (const std::string name = name_of(key); !texts_.contains(name))
        return add_date(name, days);
    add_word(key, word);
  }

  void add_word(PyObject* key, std::string_view word) {
    std::string name = has_name(key) ? name_of(key) : std::to_string(integer_key(key));
    name += '=';
    name += word;
    add_named(std::move(name), 1.0);
  }

  void add_date(std::string_view column, double days) {
    const auto parts = text::date_parts(days);
    for (size_t k = 0; k < parts.size(); ++k)
      if (parts[k] != 0) add_named(std::string(column).append(text::kDateParts[k]), parts[k]);
  }

  void add_named(std::string name, double value) {
    const Key id = names_.find(name);
    if (id == NameKeys::kUnknown) new_.push_back({keys_.size(), std::move(name)});
    keys_.push_back(id);
    values_.push_back(value);
  }

  [[noreturn]] void refuse(PyObject* key, double number) const {
    const std::string what = "feature " + repr(key) + ": " + show(number);
    if (std::isfinite(number)) throw BadRow(what + too_large(largest_));
    throw BadRow(what + " is not a finite number; leave missing features out");
  }

  static std::string show(double number) { return repr(nanobind::float_(number).ptr()); }

  static std::string_view utf8(PyObject* text) {
    Py_ssize_t length;
    const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes) {
      PyErr_Clear();
      throw BadRow("the text " + repr(text) + " cannot be encoded as UTF-8");
    }
    return {bytes, static_cast<size_t>(length)};
  }

  static std::string type_of(PyObject* object) {
    return text_of(PyType_GetName(Py_TYPE(object)), "object");
  }
  // The beginning of it, however long it is, and the type of an object that has none.
  static std::string repr(PyObject* object) {
    const auto held = nanobind::borrow(object);  // its code may take it out of the mapping
    auto text = nanobind::steal(PyObject_Repr(object));
    if (!text.is_valid()) {
      clear_error();
      return unnamed(object);
    }
    const bool cut = PyUnicode_GetLength(text.ptr()) > kShown;
    if (cut) text = nanobind::steal(PyUnicode_Substring(text.ptr(), 0, kShown));
    return text_of(text.release().ptr(), unnamed(object)) + (cut ? "..." : "");
  }
  static std::string unnamed(PyObject* object) {
    std::string text(1, '<');
    return text.append(type_of(object)).append(1, '>');
  }
  static std::string text_of(PyObject* text, std::string otherwise) {
    const auto held = nanobind::steal(text);
    const char* bytes = text ? PyUnicode_AsUTF8AndSize(text, nullptr) : nullptr;
    if (bytes) return bytes;
    clear_error();
    return otherwise;
  }

  // An error of the row's code becomes a BadInput; an interrupt is passed on.
  static void clear_error() {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nanobind::python_error();
    PyErr_Clear();
  }

  static Key integer_key(PyObject* key) {
    const auto held = nanobind::borrow(key);  // its code may take it out of the mapping
    const auto index = nanobind::steal(PyNumber_Index(key));
    if (!index.is_valid()) {
      clear_error();
      throw BadRow("a feature must be a string or an integer, got " + type_of(key) + " " +
                   repr(key));
    }
    const long long number = PyLong_AsLongLong(index.ptr());
    if (number < 0) {
      PyErr_Clear();
      throw BadRow("feature index " + repr(key) + " must be between 0 and 2^63 - 1");
    }
    return static_cast<Key>(number);
  }

  Batch batch() {
    kept_.clear();
    Batch batch;
    batch.rows = indptr_.size() - 1;
    batch.index_type = Batch::Index::u64;
    batch.values = values_.data();
    batch.indices = keys_.data();
    batch.indptr = indptr_.data();
    batch.stored = keys_.size();
    batch.same_keys = same_keys_;
    batch.checked = true;
    batch.table = true;
    return batch;
  }

  static constexpr Py_ssize_t kShown = 80;   // characters of an object in a message
  static constexpr unsigned kSeenBits = 13;  // 8192 names, 262 kB

  NameKeys& names_;
  Refused refused_;
  Columns texts_;
  double largest_;
  Missing missing_;
  nanobind::object datetime64_;
  std::vector<Key> keys_;
  std::vector<double> values_;
  std::vector<int64_t> indptr_;
  // Single rows with the same number have the same keys, those of `recent_`; 0 if they are others.
  uint64_t same_keys_ = 0, rows_with_others_ = 0;
  bool all_recent_ = false;  // the last dict had only keys of `recent_`
  std::vector<New> new_;
  std::vector<Recent> recent_;          // by position in the row
  std::vector<Recent> seen_;            // by hash
  std::vector<nanobind::object> kept_;  // rows and items that only this reader holds
};

}  // namespace sonline
