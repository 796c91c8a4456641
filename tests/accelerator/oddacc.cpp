// A device for tests, in host memory: every op without a kernel here runs on the CPU.
//
// Like CUDA, it does not survive a fork: a process whose parent has used the device cannot use it.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <unistd.h>

#include <cstdlib>

namespace {

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);
pid_t user = 0;
bool lost = false;

void begin() {
  if (!user) user = getpid();
  TORCH_CHECK(user == getpid(), "Cannot re-initialize oddacc in forked subprocess");
  if (lost) throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700, "oddacc error: an illegal memory access");
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    begin();
    void* data = nullptr;
    TORCH_CHECK(!bytes || !posix_memalign(&data, 64, bytes), "oddacc out of memory");
    return {data, data, &free, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Memory memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory);

// Asked for a stream by autograd, as for CUDA.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::Device getDevice() const override { return kDevice; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(c10::DeviceIndex) const override { begin(); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    if (!user) user = getpid();
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Generator final : at::CPUGeneratorImpl {
  Generator() {
    device_ = kDevice;
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return user == getpid(); }
  c10::DeviceIndex deviceCount() const override { return 1; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    begin();
    static const at::Generator generator = at::make_generator<Generator>();
    return generator;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    begin();
    return at::make_generator<Generator>();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto data = memory.allocate(bytes);
    std::memcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr(std::move(data));
    storage.set_nbytes(bytes);
  }
};
const bool has_hooks = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& x) {
  return x.is_cpu() ? x : at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const auto kind = c10::dtype_or_default(dtype);
  return at::detail::empty_strided_generic(size, stride, &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), kind);
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  begin();
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar item(const at::Tensor& x) { return on_host(x).item(); }

// Run a draw on the CPU with the state of a generator of this device.
template <typename Draw>
at::Tensor& drawn(at::Tensor& x, const std::optional<at::Generator>& given, Draw draw) {
  auto own = given ? *given : at::globalContext().defaultGenerator(kDevice);
  auto cpu = at::detail::createCPUGenerator();
  cpu.set_state(own.get_state());
  auto host = on_host(x);
  draw(host, cpu);
  own.set_state(cpu.get_state());
  return x;
}

using Given = std::optional<at::Generator>;
at::Tensor& normal_(at::Tensor& x, double mean, double std, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.normal_(mean, std, cpu); });
}
at::Tensor& uniform_(at::Tensor& x, double low, double high, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.uniform_(low, high, cpu); });
}
at::Tensor& random_(at::Tensor& x, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.random_(cpu); });
}
at::Tensor& random_to(at::Tensor& x, int64_t high, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.random_(high, cpu); });
}
at::Tensor& random_from(at::Tensor& x, int64_t low, std::optional<int64_t> high, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.random_(low, high, cpu); });
}
at::Tensor& bernoulli_(at::Tensor& x, double p, Given g) {
  return drawn(x, g, [&](auto& host, auto& cpu) { host.bernoulli_(p, cpu); });
}

at::Tensor as_strided(const at::Tensor& x, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  const auto at_element = offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt;
  return at::native::as_strided_tensorimpl(x, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           at_element);
}

at::Tensor view(const at::Tensor& x, c10::SymIntArrayRef size) {
  return at::native::view(x, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor& set_source(at::Tensor& x, at::Storage source) {
  const int64_t count = source.nbytes() / x.element_size();
  return at::native::set_storage_cpu_(x, source, 0, {count}, {1});
}

at::Generator own_generator() { return at::globalContext().defaultGenerator(kDevice); }

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("resize_", &at::native::resize_);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  m.impl("set_.source_Storage", &set_source);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &item);
  m.impl("normal_", &normal_);
  m.impl("uniform_", &uniform_);
  m.impl("random_", &random_);
  m.impl("random_.to", &random_to);
  m.impl("random_.from", &random_from);
  m.impl("bernoulli_.float", &bernoulli_);
}

// What the Python module of the device calls. After `lose`, every use of the device fails, as after a bad kernel;
// `lose` itself if kernels are waited for.
TORCH_LIBRARY(oddacc, m) {
  m.def("is_used", [] { return user == getpid(); });
  m.def("seed", [](int64_t seed) { own_generator().set_current_seed(seed); });
  m.def("state", [] { return own_generator().get_state(); });
  m.def("set_state", [](const at::Tensor& state) { own_generator().set_state(state); });
  m.def("lose", [] {
    lost = true;
    if (getenv("CUDA_LAUNCH_BLOCKING")) begin();
  });
}
