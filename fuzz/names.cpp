// Fuzz target: a NameTable behaves like a map with ids in the order of insertion, also after names
// were taken back, and a table from arbitrary saved bytes is refused or equal to what was saved.
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "check.hpp"
#include "sonline/names.hpp"

namespace {

void check_against_map(std::string_view input) {
  sonline::NameTable table;
  std::unordered_map<std::string, uint64_t> ids;
  std::vector<std::string> names;
  while (!input.empty()) {
    const auto command = static_cast<uint8_t>(input[0]);
    input.remove_prefix(1);
    if (command == 255 && !names.empty()) {
      const size_t keep = input.empty() ? 0 : static_cast<uint8_t>(input[0]) % names.size();
      for (; names.size() > keep; names.pop_back()) ids.erase(names.back());
      table.truncate(keep);
      continue;
    }
    const std::string name(input.substr(0, command % 20));
    input.remove_prefix(name.size());
    const auto known = ids.find(name);
    CHECK(table.find(name).has_value() == (known != ids.end()));
    const uint64_t id = table.insert(name);
    CHECK(id == (known == ids.end() ? names.size() : known->second));
    if (known == ids.end()) {
      ids.emplace(name, id);
      names.push_back(name);
    }
  }
  CHECK(table.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) CHECK(table.name(i) == names[i]);
  const auto copy = sonline::NameTable::restore(table.blob(), table.offsets());
  for (size_t i = 0; i < names.size(); ++i) CHECK(copy.find(names[i]) == i);
}

void check_restore(std::string_view input) {
  if (input.empty()) return;
  const size_t count = static_cast<uint8_t>(input[0]) % 16;
  input.remove_prefix(1);
  std::vector<uint64_t> offsets;
  for (size_t i = 0; i < count && !input.empty(); ++i) {
    offsets.push_back(static_cast<uint8_t>(input[0]) % 32);
    input.remove_prefix(1);
  }
  try {
    const auto table = sonline::NameTable::restore({input.data(), input.size()}, offsets);
    CHECK(table.size() + 1 == offsets.size() && table.blob().size() == input.size());
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_against_map(input);
  check_restore(input);
  return 0;
}
