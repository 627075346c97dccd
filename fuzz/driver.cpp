// A small coverage-guided fuzzer for machines without libFuzzer: g++ -fsanitize-coverage=trace-pc
// reports the edges that an input reaches, and inputs that reach new ones are kept and mutated.
// Compiled without sanitizers and coverage, or its own loops would cost more than the parser's.
//
// Usage: driver SECONDS SEED MAX_LENGTH CRASH_FILE CORPUS_FOLDER DICTIONARY [SEED_FOLDER...]
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMapSize = size_t{1} << FUZZ_MAP_BITS;  // several times the edges there are
alignas(64) uint8_t reached[kMapSize];  // edges of the current input: how often each was taken
alignas(64) uint8_t known[kMapSize];    // edges of all inputs so far: a set of count classes
size_t last_place;                      // the targets have one thread

using Bytes = std::vector<uint8_t>;

Bytes current;
const char* crash_file;

// The sanitizers end the process by abort(): leave the input behind.
void save_current(int) {
  if (std::FILE* file = std::fopen(crash_file, "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input that fails was written to %s\n", crash_file);
  }
  std::_Exit(1);
}

bool runs_into_something_new(const Bytes& input) {
  current = input;
  std::memset(reached, 0, sizeof reached);
  last_place = 0;
  const Bytes copy(input);  // exactly as long as the input, so that an overrun is seen
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  bool is_new = false;
  for (size_t i = 0; i < kMapSize; ++i) {
    uint64_t eight;
    if (i % 8 == 0 && (std::memcpy(&eight, reached + i, 8), eight == 0)) {
      i += 7;
      continue;
    }
    const uint8_t count = reached[i];
    const uint8_t bucket = count == 0 ? 0 : count < 2 ? 1 : count < 4 ? 2 : count < 16 ? 4 : 8;
    if ((bucket & ~known[i]) != 0) {
      known[i] |= bucket;
      is_new = true;
    }
  }
  return is_new;
}

Bytes read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The quoted strings of a libFuzzer dictionary, with \xNN escapes.
std::vector<Bytes> read_dictionary(const char* path) {
  std::vector<Bytes> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find('"');
    const size_t last = line.rfind('"');
    if (line.empty() || line[0] == '#' || first == last) continue;
    Bytes word;
    for (size_t i = first + 1; i < last; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        word.push_back(static_cast<uint8_t>(std::stoi(line.substr(i + 2, 2), nullptr, 16)));
        i += 3;
      } else {
        word.push_back(static_cast<uint8_t>(line[i] == '\\' ? line[++i] : line[i]));
      }
    }
    words.push_back(word);
  }
  return words;
}

class Mutator {
 public:
  Mutator(uint64_t seed, size_t max_length, std::vector<Bytes> words)
      : random_(seed), max_length_(max_length), words_(std::move(words)) {}

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  // An input of the corpus; of two candidates mostly the shorter one, which runs faster.
  const Bytes& pick(const std::vector<Bytes>& corpus) {
    const Bytes& first = corpus[below(corpus.size())];
    const Bytes& second = corpus[below(corpus.size())];
    return (first.size() < second.size()) == (below(8) != 0) ? first : second;
  }

  void mutate(Bytes& input, const Bytes& other) {
    for (size_t times = 1 + below(4); times-- > 0;) {
      const size_t at = below(input.size() + 1);
      const auto place = input.begin() + static_cast<ptrdiff_t>(at);
      switch (below(6)) {
        case 0:
          if (at < input.size()) input[at] ^= static_cast<uint8_t>(1u << below(8));
          break;
        case 1:
          if (at < input.size()) input[at] = static_cast<uint8_t>(random_());
          break;
        case 2:
          input.insert(place, static_cast<uint8_t>(random_()));
          break;
        case 3:
          input.erase(place, place + static_cast<ptrdiff_t>(below(input.size() - at + 1)));
          break;
        case 4:
          if (!words_.empty()) {
            const Bytes& word = words_[below(words_.size())];
            input.insert(place, word.begin(), word.end());
          }
          break;
        default: {
          const size_t from = below(other.size());
          const size_t length = below(other.size() - from + 1);
          const auto start = other.begin() + static_cast<ptrdiff_t>(from);
          input.insert(place, start, start + static_cast<ptrdiff_t>(length));
        }
      }
    }
    if (input.size() > max_length_) input.resize(max_length_);
  }

 private:
  std::mt19937_64 random_;
  size_t max_length_;
  std::vector<Bytes> words_;
};

// Writes an input into the corpus folder, named by its hash, so that a later run starts from it.
void keep(const Bytes& input, const std::filesystem::path& folder) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const uint8_t byte : input) hash = (hash ^ byte) * 1099511628211u;
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  std::ofstream(folder / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()),
             static_cast<std::streamsize>(input.size()));
}

}  // namespace

// Called at every edge of the code under test.
extern "C" void __sanitizer_cov_trace_pc() {
  const auto address = reinterpret_cast<size_t>(__builtin_return_address(0));
  const size_t place = (address ^ address >> 16) * 0x9E3779B97F4A7C15u >> 48;
  uint8_t& count = reached[(place ^ last_place) % kMapSize];
  if (count != 255) ++count;
  last_place = place >> 1;
}

// Stacks of allocations cost a third of the time; ASAN_OPTIONS=malloc_context_size=30 with the
// input that fails shows them.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=1:quarantine_size_mb=4:max_malloc_fill_size=256:detect_leaks=0";
}

extern "C" void __asan_set_death_callback(void (*callback)());

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr,
                 "usage: %s SECONDS SEED MAX_LENGTH CRASH_FILE CORPUS_FOLDER DICTIONARY "
                 "[SEED_FOLDER...]\n",
                 argv[0]);
    return 2;
  }
  const double seconds = std::atof(argv[1]);
  crash_file = argv[4];
  const std::filesystem::path folder = argv[5];
  std::signal(SIGABRT, save_current);
  __asan_set_death_callback([] { save_current(0); });
  std::vector<Bytes> corpus = {{}};
  for (int i = 7; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      Bytes input = read_file(file.path().c_str());
      if (runs_into_something_new(input)) corpus.push_back(std::move(input));
    }
  }
  Mutator mutator(static_cast<uint64_t>(std::atoll(argv[2])),
                  static_cast<size_t>(std::atoll(argv[3])), read_dictionary(argv[6]));
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  size_t runs = 0;
  while (runs % 64 != 0 || elapsed() < seconds) {
    Bytes input = mutator.pick(corpus);
    mutator.mutate(input, mutator.pick(corpus));
    if (runs_into_something_new(input)) {
      keep(input, folder);
      corpus.push_back(std::move(input));
    }
    ++runs;
  }
  size_t edges = 0;
  for (const uint8_t seen : known) edges += seen != 0;
  std::printf("%zu runs in %.0f s, %zu inputs kept, %zu edges reached\n", runs, elapsed(),
              corpus.size(), edges);
  return 0;
}
