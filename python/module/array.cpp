// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

#include <nanobind/stl/string.h>

#include <numpy/arrayobject.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>
#include <vector>

namespace softfold::python {
namespace {

using nb::dlpack::dtype_code;

/// Whether NumPy's C interface is there: where nobody has imported NumPy there are no arrays of
/// its.
bool numpy_is_loaded(bool import) {
  static std::atomic<bool> loaded = false;
  if (loaded.load(std::memory_order_acquire)) {
    return true;
  }
  if (!import &&
      !nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules")).contains("numpy")) {
    return false;
  }
  if (PyArray_ImportNumPyAPI() < 0) {
    throw nb::python_error();
  }
  loaded.store(true, std::memory_order_release);
  return true;
}

nb::object bfloat16_of_numpy() { return nb::module_::import_("ml_dtypes").attr("bfloat16"); }

std::string text_of_object(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

std::string type_text(nb::handle object) {
  const nb::handle type = object.type();
  const auto module = nb::cast<std::string>(nb::str(type.attr("__module__")));
  const auto name = nb::cast<std::string>(nb::str(type.attr("__qualname__")));
  return module == "builtins" ? name : module + "." + name;
}

/// An attribute, or nothing. The name is a string of Python's that is kept: every call asks for it.
nb::object attribute_of(nb::handle object, PyObject* name) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid()) {
    PyErr_Clear();
  }
  return found;
}

/// The functions of DLPack's C interface that a type has, or null.
const exchange_api* exchange_of(nb::handle object) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const nb::object capsule = attribute_of(object.type(), name);  // the type holds it
  if (!capsule.is_valid()) {
    return nullptr;
  }
  const auto* api =
      static_cast<const exchange_api*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) {
    PyErr_Clear();
  }
  while (api != nullptr && api->version.major != 1) {
    api = api->previous;
  }
  return api != nullptr && api->tensor_of_object != nullptr ? api : nullptr;
}

/// The name space of functions of the library that an array is of.
nb::object namespace_of(nb::handle object) {
  if (nb::hasattr(object, "__array_namespace__")) {
    return object.attr("__array_namespace__")();
  }
  const auto module = nb::cast<std::string>(nb::str(object.type().attr("__module__")));
  nb::object found = nb::module_::import_(module.substr(0, module.find('.')).c_str());
  if (!nb::hasattr(found, "from_dlpack")) {
    throw nb::type_error(("softfold cannot make a result of the type " + type_text(object) +
                          ", whose library has no from_dlpack: give out")
                             .c_str());
  }
  return found;
}

bool belongs_to(nb::handle object, std::string_view library) {
  const auto module = nb::cast<std::string>(nb::str(object.type().attr("__module__")));
  return module.substr(0, library.size()) == library;
}

nb::dlpack::dtype dlpack_type(softfold_dtype type) {
  const dtype_code code = type == SOFTFOLD_U8                            ? dtype_code::UInt
                          : type == SOFTFOLD_BF16                        ? dtype_code::Bfloat
                          : type == SOFTFOLD_I32 || type == SOFTFOLD_I64 ? dtype_code::Int
                                                                         : dtype_code::Float;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(type)), 1};
}

std::int64_t product(extents shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

}  // namespace

std::string is_not(argument arg, const std::string& what, const std::string& expected) {
  return std::string(arg.function) + ": " + arg.name + " is " + what + ", expected " + expected;
}

std::string text_of(extents shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::int64_t size_of(softfold_dtype type) {
  return type == SOFTFOLD_F64 || type == SOFTFOLD_I64   ? 8
         : type == SOFTFOLD_F32 || type == SOFTFOLD_I32 ? 4
         : type == SOFTFOLD_U8                          ? 1
                                                        : 2;
}

const char* name_of(softfold_dtype type) {
  static constexpr const char* names[] = {"float32", "float64", "float16", "bfloat16",
                                          "int32",   "int64",   "uint8"};
  return names[type];
}

softfold_dtype type_of(argument arg, nb::handle given) {
  std::string name;
  if (nb::isinstance<nb::str>(given)) {
    name = nb::cast<std::string>(given);
  } else if (nb::hasattr(given, "__name__")) {  // np.float32, jnp.float32, ml_dtypes.bfloat16
    name = nb::cast<std::string>(nb::str(given.attr("__name__")));
  } else if (nb::hasattr(given, "name")) {  // np.dtype
    name = nb::cast<std::string>(nb::str(given.attr("name")));
  } else {
    name = text_of_object(given);  // torch.float32
  }
  for (softfold_dtype type = SOFTFOLD_F32; type <= SOFTFOLD_I64; ++type) {
    const std::string_view known = name_of(type);
    if (name == known ||
        (name.size() > known.size() && name[name.size() - known.size() - 1] == '.' &&
         name.substr(name.size() - known.size()) == known)) {
      return type;
    }
  }
  throw nb::type_error(
      is_not(arg, text_of_object(given), "float32, float64, float16, bfloat16, int32 or int64")
          .c_str());
}

array::array(argument arg, nb::handle object_, role given_as)
    : object(object_), arg_(arg), role_(given_as) {
  if (numpy_is_loaded(false) && PyArray_Check(object.ptr())) {
    of = kind::numpy;
    read_numpy();
  } else if ((api = exchange_of(object)) != nullptr) {
    of = kind::exchange;
    read_exchange();
  } else if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__")) {
    of = kind::dlpack;
    read_dlpack();
  } else {
    throw nb::type_error(
        is_not(arg, "of type " + type_text(object), "an array: NumPy's or one with __dlpack__")
            .c_str());
  }
  if (!where.on_host() && !where.on_cuda()) {
    throw nb::type_error(is_not({arg.function, (std::string(arg.name) + ".device").c_str()},
                                where.text(), "a processor's or a CUDA device's memory")
                             .c_str());
  }
}

void array::refuse_type(const std::string& found) const {
  const char* const expected = role_ == role::mask       ? "bool, uint8 or int32"
                               : role_ == role::integers ? "int32 or int64"
                                                         : "float32, float64, float16 or bfloat16";
  throw nb::type_error(
      is_not({arg_.function, (std::string(arg_.name) + ".dtype").c_str()}, found, expected)
          .c_str());
}

void array::read_numpy() {
  auto* const numpy = reinterpret_cast<PyArrayObject*>(object.ptr());
  if (!PyArray_CheckExact(object.ptr()) && nb::hasattr(object, "mask")) {
    throw nb::type_error(
        is_not(arg_, "of type " + type_text(object), "an array without a mask").c_str());
  }
  switch (PyArray_TYPE(numpy)) {
    case NPY_FLOAT:
      type = SOFTFOLD_F32;
      break;
    case NPY_DOUBLE:
      type = SOFTFOLD_F64;
      break;
    case NPY_HALF:
      type = SOFTFOLD_F16;
      break;
    case NPY_INT:
      type = SOFTFOLD_I32;
      break;
    case NPY_LONG:
      type = SOFTFOLD_I64;
      break;
    case NPY_BOOL:
    case NPY_UBYTE:
      type = SOFTFOLD_U8;
      break;
    default: {
      const std::string found = text_of_object(object.attr("dtype"));
      if (found != "bfloat16") {
        refuse_type(found);
      }
      type = SOFTFOLD_BF16;
    }
  }
  if ((role_ == role::mask) != (type == SOFTFOLD_U8) &&
      !(role_ == role::mask && type == SOFTFOLD_I32)) {
    refuse_type(text_of_object(object.attr("dtype")));
  }
  if (!PyArray_ISNOTSWAPPED(numpy)) {
    throw nb::type_error(is_not({arg_.function, (std::string(arg_.name) + ".dtype").c_str()},
                                text_of_object(object.attr("dtype").attr("str")),
                                "the machine's byte order")
                             .c_str());
  }
  if (role_ == role::output && !PyArray_ISWRITEABLE(numpy)) {
    throw nb::value_error(is_not(arg_, "read-only", "an array that can be written to").c_str());
  }
  static_assert(sizeof(npy_intp) == sizeof(std::int64_t));
  data = PyArray_DATA(numpy);
  shape = {reinterpret_cast<const std::int64_t*>(PyArray_DIMS(numpy)),
           static_cast<std::size_t>(PyArray_NDIM(numpy))};
  strides_ = reinterpret_cast<const std::int64_t*>(PyArray_STRIDES(numpy));
  item_ = size_of(type);
}

void array::set_type(nb::dlpack::dtype found) {
  if (role_ == role::mask) {
    const bool is_bool = found.code == static_cast<std::uint8_t>(dtype_code::Bool);
    if (found == dlpack_type(SOFTFOLD_U8) || (is_bool && found.bits == 8)) {
      type = SOFTFOLD_U8;
      return;
    }
    if (found == dlpack_type(SOFTFOLD_I32)) {
      type = SOFTFOLD_I32;
      return;
    }
  } else {
    for (type = SOFTFOLD_F32; type <= SOFTFOLD_I64; ++type) {
      if (found == dlpack_type(type)) {
        return;
      }
    }
  }
  const std::string name = nb::hasattr(object, "dtype")
                               ? text_of_object(object.attr("dtype"))
                               : "DLPack type " + std::to_string(found.code) + " of " +
                                     std::to_string(found.bits) + " bits";
  refuse_type(name);
}

void array::read_tensor(const dl_tensor& tensor) {
  where = {tensor.device.device_type, tensor.device.device_id};
  set_type(tensor.dtype);
  data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  shape = {tensor.shape, static_cast<std::size_t>(tensor.ndim)};
  strides_ = tensor.strides;
}

void array::read_exchange() {
  dl_tensor tensor;
  if (api->tensor_of_object(object.ptr(), &tensor) != 0) {
    nb::python_error cause;
    const std::string why = text_of_object(cause.value());
    nb::raise_from(cause, PyExc_TypeError, "%s",
                   is_not(arg_,
                          "a " + type_text(object) + " whose memory cannot be read (" +
                              why.substr(0, why.find('\n')) + ")",
                          "a dense array in memory")
                       .c_str());
  }
  // An operation that torch does not see leaves no gradient; that must not happen silently.
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  const nb::object needs_gradient = attribute_of(object, requires_grad);
  if (needs_gradient.is_valid() && needs_gradient.is(Py_True) &&
      nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")())) {
    throw nb::value_error((std::string(arg_.function) + ": " + arg_.name +
                           ".requires_grad is True, which softfold." + arg_.function +
                           " does not record: use the function of softfold.torch, if it has a "
                           "gradient, " +
                           arg_.name + ".detach() or torch.no_grad()")
                              .c_str());
  }
  read_tensor(tensor);
}

void array::read_dlpack() {
  const bool written = role_ == role::output;
  const auto device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  where = {nb::cast<std::int32_t>(nb::int_(device[0])),
           nb::cast<std::int32_t>(nb::int_(device[1]))};
  if (written && belongs_to(object, "jax")) {
    throw nb::type_error(
        is_not(arg_, "of type " + type_text(object), "an array that can be written to").c_str());
  }
  if (where.on_cuda() && belongs_to(object, "jax")) {  // whose stream is its own
    throw nb::type_error("softfold takes JAX arrays in a GPU's memory by softfold.jax only");
  }
  // The work goes to the stream that the array's library works on: nothing has to wait.
  nb::object source = nb::borrow(object);
  if (where.on_cuda()) {
    source = object.attr("__dlpack__")(nb::arg("stream") = -1);
  }
  if (written) {
    nb::ndarray<> writable;
    if (!nb::try_cast(source, writable, false)) {
      throw nb::value_error(is_not(arg_, "read-only", "an array that can be written to").c_str());
    }
    held_ = nb::ndarray<nb::ro>(writable);
  } else if (!nb::try_cast(source, held_, false)) {
    throw nb::type_error(is_not(arg_, "of type " + type_text(object) + " and cannot be read",
                                "an array whose __dlpack__ gives its memory")
                             .c_str());
  }
  set_type(held_.dtype());
  data = const_cast<void*>(held_.data());
  shape = {held_.shape_ptr(), held_.ndim()};
  strides_ = held_.stride_ptr();
}

bool array::has_elements() const { return product(shape) != 0; }

void array::refuse_strides(const char* expected) const {
  throw nb::value_error(
      is_not({arg_.function, (std::string(arg_.name) + ".strides").c_str()},
             text_of({strides_, shape.size()}),
             expected +
                 (item_ > 1 ? " (" + std::to_string(item_) + " bytes an element)" : std::string()))
          .c_str());
}

softfold_matrix array::matrix() const {
  if (shape.empty()) {
    throw nb::value_error(is_not(arg_, "of shape ()", "at least one axis").c_str());
  }
  const std::size_t last = shape.size() - 1;
  softfold_matrix m{data, product(shape.first(last)), shape[last], shape[last], type, 0};
  if (strides_ == nullptr || !has_elements()) {  // before DLPack 1.2 contiguous arrays had none
    return m;
  }
  // Rows of contiguous elements, each at the same distance from the one before.
  bool regular = shape[last] == 1 || strides_[last] == item_;
  std::int64_t step = 0;
  std::int64_t rows = 1;
  for (std::size_t i = last; i-- > 0 && regular;) {
    if (shape[i] == 1) {
      continue;
    }
    if (rows == 1) {
      step = strides_[i];
    }
    regular = strides_[i] == step * rows;
    rows *= shape[i];
  }
  if (!regular || step % item_ != 0) {
    refuse_strides("rows of contiguous elements along the last axis, at equal distances");
  }
  if (rows > 1) {
    m.stride = step / item_;
  }
  return m;
}

softfold_vector array::vector() const {
  const std::int64_t count = product(shape);
  if (!shape.empty()) {
    const softfold_matrix m = matrix();
    if (m.rows > 1 && m.stride != m.cols) {
      throw nb::value_error(is_not(arg_, "not contiguous", "contiguous elements").c_str());
    }
  }
  return {data, count, type, 0};
}

softfold_tensor dense_tensor(void* data, extents shape, softfold_dtype type) {
  std::int64_t sizes[] = {1, 1, 1, 1};
  std::copy(shape.rbegin(), shape.rend(), std::rbegin(sizes));
  const auto [batches, heads, tokens, dim] = sizes;
  return {data, batches, heads, tokens, dim, heads * tokens * dim, tokens * dim, dim, type, 0};
}

softfold_tensor dense_numbers(void* data, const softfold_tensor& query, softfold_dtype type) {
  const std::int64_t shape[] = {query.batches, query.heads, query.tokens, 1};
  return dense_tensor(data, shape, type);
}

softfold_tensor array::tensor() const {
  if (shape.empty() || shape.size() > 4) {
    throw nb::value_error(
        is_not(arg_, "of shape " + text_of(shape), "one to four axes: batches, heads, tokens, dim")
            .c_str());
  }
  softfold_tensor t = dense_tensor(data, shape, type);
  if (strides_ == nullptr || !has_elements()) {
    return t;
  }
  std::int64_t* const steps[] = {nullptr, &t.token_stride, &t.head_stride, &t.batch_stride};
  for (std::size_t i = 0; i < shape.size(); ++i) {  // from the last axis on
    const std::size_t axis = shape.size() - 1 - i;
    const std::int64_t stride = strides_[axis];
    if (shape[axis] == 1) {
      continue;
    }
    if (i == 0 ? stride != item_ : stride < 0 || stride % item_ != 0) {
      refuse_strides("contiguous elements along the last axis, other strides of 0 or more");
    }
    if (i > 0) {
      *steps[i] = stride / item_;
    }
  }
  return t;
}

void* array::stream() const {
  void* current = nullptr;
  if (of == kind::exchange) {
    if (api->current_stream(2, where.device, &current) != 0) {
      nb::raise_python_error();
    }
  } else if (belongs_to(object, "cupy")) {
    const nb::object pointer =
        nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")().attr("ptr");
    current = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(pointer));
  }
  return current;
}

nb::object new_numpy(extents shape, softfold_dtype type, void*& data) {
  numpy_is_loaded(true);
  PyArray_Descr* descr = nullptr;
  if (type == SOFTFOLD_BF16) {
    if (PyArray_DescrConverter(bfloat16_of_numpy().ptr(), &descr) != NPY_SUCCEED) {
      nb::raise_python_error();
    }
  } else {
    constexpr int numbers[] = {NPY_FLOAT, NPY_DOUBLE, NPY_HALF, NPY_NOTYPE, NPY_INT, NPY_LONG};
    descr = PyArray_DescrFromType(numbers[type]);
  }
  PyObject* const made = PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()),
                                              reinterpret_cast<const npy_intp*>(shape.data()),
                                              nullptr, nullptr, 0, nullptr);
  if (made == nullptr) {
    nb::raise_python_error();
  }
  data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(made));
  return nb::steal(made);
}

namespace {

/// Memory of the host as an object with __dlpack__, aligned as JAX wants what it is not to copy.
nb::object new_host_memory(extents shape, softfold_dtype type, void*& data) {
  constexpr std::size_t alignment = 64;
  const auto bytes = static_cast<std::size_t>(product(shape) * size_of(type));
  data = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (data == nullptr) {
    throw std::bad_alloc();
  }
  const nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  return nb::ndarray<nb::array_api>(data, sizes.size(), sizes.data(), owner, nullptr,
                                    dlpack_type(type))
      .cast();
}

}  // namespace

new_array::new_array(const array& like, extents shape, softfold_dtype type) {
  if (like.of == array::kind::numpy) {
    object_ = new_numpy(shape, type, data);
  } else if (like.of == array::kind::exchange) {
    api_ = like.api;
    dl_tensor prototype{};
    if (!like.where.on_host()) {  // results of pinned memory are in plain memory
      prototype.device = {like.where.type, like.where.device};
    } else {
      prototype.device = {1, 0};
    }
    prototype.ndim = static_cast<std::int32_t>(shape.size());
    prototype.dtype = dlpack_type(type);
    prototype.shape = const_cast<std::int64_t*>(shape.data());
    const auto fail = [](void* /*context*/, const char* /*kind*/, const char* text) {
      if (PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, text);
      }
    };
    if (api_->allocate(&prototype, &tensor_, nullptr, fail) != 0) {
      if (PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_MemoryError, "softfold: the result's memory could not be had");
      }
      nb::raise_python_error();
    }
    data = static_cast<char*>(tensor_->tensor.data) + tensor_->tensor.byte_offset;
  } else if (const nb::object library = namespace_of(like.object); like.where.on_host()) {
    object_ = library.attr("from_dlpack")(new_host_memory(shape, type, data));
  } else {
    nb::list sizes;
    for (const std::int64_t extent : shape) {
      sizes.append(extent);
    }
    object_ =
        library.attr("empty")(nb::tuple(sizes), nb::arg("dtype") = library.attr(name_of(type)));
    data = array({"softfold", "the result"}, object_, role::output).data;
  }
}

new_array::~new_array() {
  if (tensor_ != nullptr && tensor_->deleter != nullptr) {
    tensor_->deleter(tensor_);
  }
}

nb::object new_array::take() {
  if (tensor_ != nullptr) {
    void* made = nullptr;
    if (api_->object_from_managed(std::exchange(tensor_, nullptr), &made) != 0) {
      nb::raise_python_error();
    }
    return nb::steal(static_cast<PyObject*>(made));
  }
  return std::move(object_);
}

}  // namespace softfold::python
