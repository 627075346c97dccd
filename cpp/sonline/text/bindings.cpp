// Python bindings of the text parser: names for options, arrays for columns; no parsing.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sonline/hashing.hpp"
#include "sonline/names.hpp"
#include "sonline/py_model.hpp"
#include "sonline/text/cells.hpp"
#include "sonline/text/csv_sample.hpp"
#include "sonline/text/parser.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sonline::text {
namespace {

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }
nb::bytes to_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

// Any contiguous object with a buffer, borrowed for as long as this lives.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }
  const char* data() const { return static_cast<const char*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

template <class Choice>
Choice choose(const char* argument, std::string_view given,
              const std::vector<std::pair<std::string_view, Choice>>& choices) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (name == given) return choice;
    known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  throw std::invalid_argument(std::string(argument) + "='" + std::string(given) +
                              "' is unknown; choose one of " + known);
}

NameTable table_of(const char* argument, const std::vector<std::string>& names) {
  NameTable table;
  for (const std::string& name : names) {
    const uint64_t size = table.size();
    if (table.insert(name) != size) {
      throw std::invalid_argument(std::string(argument) + " must be distinct; '" + name +
                                  "' comes twice");
    }
  }
  return table;
}

// Names as a list of texts, or those of a model.
NameTable feature_names(const nb::object& names) {
  if (nb::isinstance<PyModel>(names)) return nb::cast<PyModel&>(names).name_table();
  return table_of("names", nb::cast<std::vector<std::string>>(names));
}

// A Parser with a lock: threads may share it, and calls wait for each other.
class PyParser {
 public:
  PyParser(const Options& options, Position start, Dictionaries known)
      : parser_(options, start, std::move(known)) {}

  // Calls action(parser) without the GIL.
  template <class Action>
  auto locked(Action&& action) {
    nb::gil_scoped_release unlocked;
    const std::scoped_lock lock(mutex_);
    return action(parser_);
  }

 private:
  std::mutex mutex_;
  Parser parser_;
};

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// A view of a column that keeps the batch alive.
template <class T>
Array<T> array(const Column<T>& column, nb::handle batch) {
  static T nothing[1];
  T* data = column.empty() ? nothing : const_cast<T*>(column.data());
  return Array<T>(data, {column.size()}, batch);
}

template <class T>
std::optional<Array<T>> array(const OptionalColumn<T>& column, nb::handle batch) {
  if (column.column.empty()) return std::nullopt;
  return array(column.column, batch);
}

using Names = nb::typed<nb::list, nb::str>;

Names to_list(const Strings& strings) {
  nb::list list;
  for (size_t i = 0; i < strings.size(); ++i) {
    list.append(nb::str(strings[i].data(), strings[i].size()));
  }
  return Names(list);
}

struct PyError {
  LineError error;
  std::string line;
  std::string word;
  std::string column;
};

std::vector<PyError> errors_of(const Batch& batch) {
  std::vector<PyError> errors;
  for (size_t i = 0; i < batch.errors.size(); ++i) {
    errors.push_back({batch.errors[i], std::string(batch.error_lines[i]),
                      std::string(batch.error_words[i]), std::string(batch.error_columns[i])});
  }
  return errors;
}

void make_parser(PyParser* self, std::string_view format, std::string_view labels,
                 std::string_view features, unsigned hash_bits, uint64_t hash_seed,
                 std::string_view dtype, double largest_value, std::string_view on_error,
                 bool allow_unlabelled, bool namespaces, bool frozen_names, size_t max_line_bytes,
                 size_t max_error_bytes, int64_t line, int64_t offset, const nb::object& names,
                 const std::vector<std::string>& label_names,
                 const std::vector<std::string>& na_values, bool refuse_missing, bool mark_missing,
                 bool label_weights, const nb::bytes& skipped_spaces) {
  Options options;
  options.format = choose<Format>("format", format,
                                  {{"svmlight", Format::kSvmlight},
                                   {"vw", Format::kVowpalWabbit},
                                   {"csv", Format::kCsv},
                                   {"jsonl", Format::kJsonLines}});
  options.labels = choose<LabelMode>(
      "labels", labels, {{"number", LabelMode::kNumber}, {"token", LabelMode::kToken}});
  options.features = choose<FeatureMode>(
      "features", features,
      {{"index", FeatureMode::kIndex}, {"name", FeatureMode::kName}, {"hash", FeatureMode::kHash}});
  options.double_values = choose<bool>("dtype", dtype, {{"float32", false}, {"float64", true}});
  options.on_error = choose<ErrorMode>("on_error", on_error,
                                       {{"stop", ErrorMode::kStop}, {"skip", ErrorMode::kSkip}});
  if (hash_bits < 1 || hash_bits > 62) {
    throw std::invalid_argument("hash_bits must be from 1 to 62, not " + std::to_string(hash_bits));
  }
  if (max_line_bytes < 1) throw std::invalid_argument("max_line_bytes must be at least 1");
  if (line < 1 || offset < 0) {
    throw std::invalid_argument("line must be at least 1 and offset at least 0");
  }
  options.hash_bits = hash_bits;
  options.hash_seed = hash_seed;
  options.allow_unlabelled = allow_unlabelled;
  options.largest_value = largest_value;
  options.namespaces = namespaces;
  options.frozen_names = frozen_names;
  options.max_line_bytes = max_line_bytes;
  options.max_error_bytes = max_error_bytes;
  options.na_values = na_values;
  options.refuse_missing = refuse_missing;
  options.mark_missing = mark_missing;
  options.label_weights = label_weights;
  for (const char byte : view(skipped_spaces)) {
    options.skipped_spaces[static_cast<uint8_t>(byte)] = true;
  }
  new (self) PyParser(options, {line, offset},
                      {feature_names(names), table_of("label_names", label_names), {}});
}

void set_columns(PyParser& self, const std::vector<std::string>& names,
                 const std::vector<std::string>& kinds, const std::vector<size_t>& ngrams,
                 const std::vector<std::pair<size_t, size_t>>& products, char delimiter) {
  if (kinds.size() != names.size() || ngrams.size() != names.size()) {
    throw std::invalid_argument("names, kinds and ngrams must be as many");
  }
  CsvLayout layout;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto kind = choose<CellKind>("kind", kinds[i],
                                       {{"ignored", CellKind::kIgnored},
                                        {"number", CellKind::kNumber},
                                        {"text", CellKind::kText},
                                        {"date", CellKind::kDate},
                                        {"amount", CellKind::kAmount},
                                        {"unknown", CellKind::kUnknown},
                                        {"label", CellKind::kLabel},
                                        {"weight", CellKind::kWeight},
                                        {"offset", CellKind::kOffset},
                                        {"tag", CellKind::kTag}});
    layout.columns.push_back({names[i], kind, ngrams[i]});
  }
  for (const auto& [one, other] : products) {
    if (one >= names.size() || other >= names.size()) {
      throw std::invalid_argument("products must be pairs of columns");
    }
  }
  if (std::string_view("0123456789+-.\"\r\n").find(delimiter) != std::string_view::npos) {
    throw std::invalid_argument("delimiter must be no digit, sign, point, quotation mark or break");
  }
  layout.products = products;
  layout.delimiter = delimiter;
  self.locked([&](Parser& parser) { parser.set_layout(std::move(layout)); });
}

void set_json_columns(PyParser& self, std::map<std::string, std::string> roles,
                      const std::map<std::string, std::string>& kinds,
                      const std::vector<std::string>& text,
                      const std::map<std::string, size_t>& ngrams,
                      const std::vector<std::pair<std::string, std::string>>& products) {
  JsonLayout layout;
  for (const auto& [name, role] : roles) {
    layout.roles[name] = choose<CellKind>("role", role,
                                          {{"ignored", CellKind::kIgnored},
                                           {"label", CellKind::kLabel},
                                           {"weight", CellKind::kWeight},
                                           {"offset", CellKind::kOffset},
                                           {"tag", CellKind::kTag}});
  }
  for (const auto& [name, kind] : kinds) {
    layout.kinds[name] =
        choose<CellKind>("kind", kind, {{"date", CellKind::kDate}, {"amount", CellKind::kAmount}});
  }
  layout.text = {text.begin(), text.end()};
  layout.ngrams = {ngrams.begin(), ngrams.end()};
  layout.products = products;
  self.locked([&](Parser& parser) { parser.set_json_layout(std::move(layout)); });
}

void bind_parser(nb::module_& m) {
  const Options defaults;
  nb::class_<PyParser>(m, "TextParser",
                       "Turns chunks of svmlight, Vowpal Wabbit text, CSV or JSON lines into rows.")
      .def("__init__", &make_parser, "format"_a, nb::kw_only(), "labels"_a = "number",
           "features"_a = "index", "hash_bits"_a = defaults.hash_bits,
           "hash_seed"_a = defaults.hash_seed, "dtype"_a = "float32",
           "largest_value"_a = defaults.largest_value, "on_error"_a = "stop",
           "allow_unlabelled"_a = false, "namespaces"_a = false, "frozen_names"_a = false,
           "max_line_bytes"_a = defaults.max_line_bytes,
           "max_error_bytes"_a = defaults.max_error_bytes, "line"_a = 1, "offset"_a = 0,
           "names"_a = nb::list(), "label_names"_a = std::vector<std::string>(),
           "na_values"_a = std::vector<std::string>(), "refuse_missing"_a = false,
           "mark_missing"_a = false, "label_weights"_a = false,
           "skipped_spaces"_a = nb::bytes("", 0))
      .def(
          "feed",
          [](PyParser& self, nb::handle data) {
            const Buffer buffer(data);
            return self.locked([&](Parser& p) { return p.feed(buffer.data(), buffer.size()); });
          },
          "data"_a,
          "Return the rows that end within this chunk of bytes; the GIL is released meanwhile.")
      .def(
          "end_file",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.end_file(); }); },
          "Return the row of a last line without newline; another file may be fed after it.")
      .def(
          "seek",
          [](PyParser& self, int64_t line, int64_t offset, int64_t rows) {
            self.locked([&](Parser& p) { p.seek({line, offset, rows}); });
          },
          "line"_a, "offset"_a, "rows"_a, "Set where the next file is read on.")
      .def("set_columns", &set_columns, "names"_a, "kinds"_a, "ngrams"_a, "products"_a,
           "delimiter"_a, "Set what the columns of the CSV hold that is fed next.")
      .def("set_json_columns", &set_json_columns, "roles"_a, "kinds"_a, "text"_a, "ngrams"_a,
           "products"_a, "Set what columns of JSON lines are, by name, before anything is fed.")
      .def_prop_ro(
          "columns",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.columns(); }); },
          "JSON lines: the columns that rows had so far.")
      .def_prop_ro(
          "line",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.position().line; }); },
          "Number of the first line that is not parsed yet, counted from 1.")
      .def_prop_ro(
          "offset",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.position().offset; }); },
          "Offset of the first byte of that line within the input.")
      .def_prop_ro(
          "rows",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.position().rows; }); },
          "Number of rows before that line, bad ones among them.")
      .def_prop_ro(
          "pending",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.pending(); }); },
          "Number of bytes of that line that were already fed.")
      .def_prop_ro(
          "failed",
          [](PyParser& self) { return self.locked([](Parser& p) { return p.failed(); }); },
          "Whether the parser stopped at a bad line.");
}

void bind_batch(nb::module_& m) {
  nb::class_<PyError>(m, "TextError", "A line that could not be parsed.")
      .def_prop_ro("kind", [](const PyError& self) { return name_of(self.error.reason); })
      .def_prop_ro("reason", [](const PyError& self) { return explain(self.error.reason); })
      .def_prop_ro("line", [](const PyError& self) { return self.error.line; })
      .def_prop_ro("column", [](const PyError& self) { return self.error.column; })
      .def_prop_ro("offset", [](const PyError& self) { return self.error.offset; })
      .def_prop_ro("row", [](const PyError& self) { return self.error.row; })
      .def_prop_ro("cell", [](const PyError& self) { return self.error.cell; })
      .def_prop_ro("text", [](const PyError& self) { return to_bytes(self.line); })
      .def_prop_ro("word", [](const PyError& self) { return to_bytes(self.word); })
      .def_prop_ro(
          "name", [](const PyError& self) { return to_bytes(self.column); },
          "Name of the column, in JSON lines.");

  nb::class_<Batch> batch(m, "TextBatch", "Rows in CSR form; the arrays belong to the batch.");
  const auto column = [&](const char* name, auto member, const char* doc) {
    batch.def_prop_ro(
        name,
        [member](nb::handle self) { return array(nb::cast<const Batch&>(self).*member, self); },
        nb::rv_policy::automatic, doc);
  };
  batch.def("__len__", &Batch::rows);
  column("indptr", &Batch::indptr, "Where each row starts and ends in indices and values.");
  column("indices", &Batch::indices, "Index, slot or name id of each feature.");
  column("namespaces", &Batch::namespaces, "Namespace id of each feature, if asked for.");
  batch.def_prop_ro(
      "values",
      [](nb::handle self) -> std::variant<Array<float>, Array<double>> {
        const auto& columns = nb::cast<const Batch&>(self);
        if (columns.double_values) return array(columns.values64, self);
        return array(columns.values32, self);
      },
      nb::rv_policy::automatic, "Value of each feature.");
  column("labels", &Batch::labels, "Label of each row as a number, NaN where it has none.");
  column("label_codes", &Batch::label_codes,
         "Label of each row as a code, -1 where it has none, if labels are tokens.");
  batch.def_ro("unlabelled", &Batch::unlabelled, "Number of rows without label.");
  column("weights", &Batch::weights, "Weight of each row; None if all are 1.");
  column("offsets", &Batch::offsets, "Offset of each row; None if all are 0.");
  batch.def_prop_ro(
      "tags",
      [](const Batch& self) -> std::optional<Names> {
        if (self.tags.size() == 0) return std::nullopt;
        return to_list(self.tags);
      },
      "Tag of each row; None if no row has one.");
  column("lines", &Batch::lines, "Line number of each row.");
  column("ends", &Batch::ends, "Offset of the first byte after each row's line.");
  column("next_lines", &Batch::next_lines, "Number of the line after each row of CSV.");
  column("row_ends", &Batch::row_ends, "Rows of CSV up to each row, bad ones among them.");
  const auto names = [&](const char* name, Strings Batch::* member, const char* doc) {
    batch.def_prop_ro(name, [member](const Batch& self) { return to_list(self.*member); }, doc);
  };
  names("new_names", &Batch::new_names, "Feature names that this batch is the first to use.");
  names("new_labels", &Batch::new_labels, "Class labels that this batch is the first to use.");
  names("new_namespaces", &Batch::new_namespaces,
        "Namespaces that this batch is the first to use.");
  names("number_columns", &Batch::number_columns,
        "Columns that are known to hold numbers from here on.");
  names("text_columns", &Batch::text_columns, "Columns that are known to hold text from here on.");
  names("date_columns", &Batch::date_columns, "Columns that are known to hold dates from here on.");
  batch.def_ro("unknown_features", &Batch::unknown_features,
               "Number of features left out because names are frozen.");
  batch.def_prop_ro("errors", &errors_of, "The lines that could not be parsed.");
}

void bind_names(nb::module_& m) {
  m.def(
      "split_csv",
      [](const nb::bytes& text, char delimiter, size_t most) {
        const auto [cells_of_rows, used] = split_csv(view(text), delimiter, most);
        nb::list rows;
        for (const auto& row : cells_of_rows) {
          nb::list cells;
          for (const std::string& cell : row) cells.append(to_bytes(cell));
          rows.append(cells);
        }
        return std::pair(nb::typed<nb::list, nb::typed<nb::list, nb::bytes>>(rows), used);
      },
      "text"_a, "delimiter"_a, "most"_a = SIZE_MAX,
      "Return the cells of the first rows of a piece of CSV, and how many bytes these are.");
  m.def(
      "describe_csv",
      [](const nb::bytes& text, char delimiter, size_t columns,
         const std::vector<std::string>& na_values) {
        nb::list found;
        for (const CsvCells& cells : describe_csv(view(text), delimiter, columns, na_values)) {
          found.append(
              nb::make_tuple(cells.count, cells.words, cells.decimal_commas, to_bytes(cells.word)));
        }
        return nb::typed<nb::list, nb::typed<nb::tuple, size_t, size_t, size_t, nb::bytes>>(found);
      },
      "text"_a, "delimiter"_a, "columns"_a, "na_values"_a,
      "Return for each column of a piece of CSV the number of its cells, of words that are no "
      "numbers and of decimal commas, and the first word.");
  m.def(
      "read_date",
      [](std::string_view word) -> std::optional<double> {
        double days;
        return read_date(word, days) ? std::optional(days) : std::nullopt;
      },
      "word"_a, "Return a date or time such as 2024-05-17T12:30 as days since 2000-01-01.");
  m.def(
      "read_amount",
      [](std::string_view word) -> std::optional<double> {
        double value;
        return read_amount(word, value) ? std::optional(value) : std::nullopt;
      },
      "word"_a, "Return a number with separators and signs, such as 1,234.50 or 12 %.");
  m.def(
      "date_parts",
      [](double days) {
        std::vector<std::pair<std::string, double>> named;
        const auto parts = date_parts(days);
        for (size_t k = 0; k < parts.size(); ++k) {
          named.push_back({std::string(kDateParts[k]), parts[k]});
        }
        return named;
      },
      "days"_a, "Return the features of a date: the endings of their names, and their values.");
  m.def(
      "hash_bytes",
      [](const nb::bytes& data, uint64_t seed) { return hash_bytes(view(data), seed); }, "data"_a,
      "seed"_a = 0, "Return the 64-bit hash of a byte string.");
  m.def(
      "hash_slot", [](uint64_t index, unsigned bits) { return hash_slot(index, bits); }, "index"_a,
      "bits"_a, "Return the slot of an integer key among 2^bits.");
  m.def(
      "hash_slot",
      [](const nb::bytes& name, unsigned bits, uint64_t seed) {
        return hash_slot(view(name), bits, seed);
      },
      "name"_a, "bits"_a, "seed"_a = 0, "Return the slot of a named key among 2^bits.");

  nb::class_<NameTable>(m, "NameTable", "Exact names with ids in the order of insertion.")
      .def(nb::init<>())
      .def("__len__", &NameTable::size)
      .def(
          "insert", [](NameTable& self, const nb::bytes& name) { return self.insert(view(name)); },
          "name"_a)
      .def(
          "find",
          [](const NameTable& self, const nb::bytes& name) { return self.find(view(name)); },
          "name"_a)
      .def("name",
           [](const NameTable& self, uint64_t id) {
             if (id >= self.size()) throw nb::index_error("no name has this id");
             return to_bytes(self.name(id));
           })
      .def("truncate", &NameTable::truncate, "size"_a)
      .def("saved",
           [](const NameTable& self) {
             const auto blob = self.blob();
             const auto offsets = self.offsets();
             return std::pair(to_bytes({blob.data(), blob.size()}),
                              std::vector<uint64_t>(offsets.begin(), offsets.end()));
           })
      .def_static(
          "restore",
          [](const nb::bytes& blob, const std::vector<uint64_t>& offsets) {
            const std::string_view text = view(blob);
            return NameTable::restore({text.data(), text.size()}, offsets);
          },
          "blob"_a, "offsets"_a);
}

}  // namespace
}  // namespace sonline::text

void bind_text(nb::module_& m) {
  sonline::text::bind_names(m);
  sonline::text::bind_batch(m);
  sonline::text::bind_parser(m);
}
