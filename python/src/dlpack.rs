//! Unsafe code for DLPack, which exports a tensor to another library as C structs. The other library frees the memory
//! by calling a function.
//!
//! Nothing is copied. Each capsule holds a clone of the [`Batch`], so the slot returns to the ring when the last tensor
//! in any library is freed. The rules, from the DLPack specification 1.0:
//! 1. The struct of a capsule is part of a [`Holder`], which is freed exactly once: by `deleter`, which the consumer of
//!    the capsule calls, or, if there was no consumer, by the capsule's destructor.
//! 2. A consumer renames the capsule, so a capsule with its original name was not consumed.
//! 3. `deleter` may be called from any thread, without the interpreter, so it touches no Python object. Dropping a
//!    batch takes the loader's lock for a moment. No thread holds this lock while it waits for Python.
//! 4. The consumer of a tensor may write to it. The pointer comes from the slot itself ([`Tensor::memory`]),
//!    and this package makes no slice of an exported batch ([`Tensor::bytes`] is never called).
//! 5. Device memory is passed as an address on the device, never as a pointer here. Its values are complete when the
//!    batch is handed out, so no stream has to wait for them. Before a capsule is made, [`Batch::used_on`] records the
//!    streams to wait for before the slot is reused.
//! 6. The stream number from Python must be valid, as for every library that accepts a stream through DLPack, and the
//!    stream must live until the batch is dropped. `Batch.used_on` and docs/gpu.md require this.
//!
//! [`Tensor::memory`]: shardpack_loader::Tensor::memory
//! [`Tensor::bytes`]: shardpack_loader::Tensor::bytes
#![allow(unsafe_code)]

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use shardpack_format::{Dtype, ElementType};
use shardpack_loader::Batch;
use shardpack_loader::stage::StreamHandle;
use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut, without_provenance_mut};

/// Returns the stream with this handle.
///
/// # Safety
/// The handle belongs to a stream of the batch's device, and the stream lives until the batch is dropped (rule 6). A
/// driver cannot recognise an invalid handle.
pub(crate) const unsafe fn stream(handle: u64) -> StreamHandle {
    // SAFETY: the caller guarantees that the handle is valid and that the stream lives long enough.
    unsafe { StreamHandle::new(handle) }
}

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// DLPack's `kDLCPU`, with device index 0.
pub(crate) const CPU: (i32, i32) = (1, 0);

/// `kDLCUDA`.
pub(crate) const CUDA: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor` of DLPack's C header.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned` of DLPack's C header.
#[repr(C)]
struct ManagedVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// One of DLPack's two managed structs, with the memory to which it points.
struct Holder<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Keeps the memory of the tensor alive.
    _batch: Batch,
}

pub(crate) struct LentTensor<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) elements: Elements,
    pub(crate) dtype: ElementType,
    pub(crate) shape: &'a [u64],
}

pub(crate) enum Elements {
    /// A pointer to host memory for reading and writing, not a slice.
    Host(NonNull<[u8]>),
    Device {
        device: (i32, i32),
        address: u64,
    },
}

impl Elements {
    pub(crate) const fn device(&self) -> (i32, i32) {
        match self {
            Self::Host(_) => CPU,
            Self::Device { device, .. } => *device,
        }
    }

    /// Returns the pointer for the struct: host memory, or an address that is valid only on the device.
    fn data(&self) -> PyResult<*mut c_void> {
        match self {
            Self::Host(memory) => Ok(memory.cast().as_ptr()),
            Self::Device { address, .. } => usize::try_from(*address).map(without_provenance_mut).map_err(|_| {
                PyBufferError::new_err(
                    "DLPack: cannot export this GPU tensor, because its address needs a 64-bit Python",
                )
            }),
        }
    }
}

/// `kDLBfloat`.
const BFLOAT: u8 = 4;

const fn data_type(element: ElementType) -> Option<DataType> {
    let ElementType::Dtype(dtype) = element else {
        return Some(DataType { code: BFLOAT, bits: 16, lanes: 1 });
    };
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::Bool => 6,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    let bits = dtype.bytes() as u8 * 8;
    Some(DataType { code, bits, lanes: 1 })
}

/// Returns a capsule for `lent`: in the form of DLPack 1.0 if `versioned`, otherwise in the older form.
///
/// # Errors
/// `BufferError` if DLPack does not have the element type, or if the shape does not fit DLPack's integers. Python's own
/// error if Python cannot make a capsule.
pub(crate) fn export(py: Python<'_>, lent: &LentTensor<'_>, versioned: bool) -> PyResult<Py<PyAny>> {
    let dtype = data_type(lent.dtype)
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack does not support the type {}", lent.dtype)))?;
    let axes: Result<Vec<i64>, _> = lent.shape.iter().map(|&axis| i64::try_from(axis)).collect();
    let shape =
        axes.map_err(|_| PyBufferError::new_err(format!("the shape {:?} is too large for DLPack", lent.shape)))?;
    let ndim =
        i32::try_from(shape.len()).map_err(|_| PyBufferError::new_err("the tensor has too many axes for DLPack"))?;
    // The pointer and the device follow rules 4 and 5.
    let data = lent.elements.data()?;
    let (kind, id) = lent.elements.device();
    let device = DlDevice { kind, id };
    let tensor = DlTensor { data, device, ndim, dtype, shape: null_mut(), strides: null_mut(), byte_offset: 0 };
    let batch = lent.batch.clone();
    if versioned {
        let version = [1, 0];
        let deleter: unsafe extern "C" fn(*mut ManagedVersioned) = free::<ManagedVersioned>;
        let managed = ManagedVersioned { version, context: null_mut(), deleter: Some(deleter), flags: 0, tensor };
        capsule(py, Holder::boxed(managed, shape, batch))
    } else {
        let deleter: unsafe extern "C" fn(*mut Managed) = free::<Managed>;
        let managed = Managed { tensor, context: null_mut(), deleter: Some(deleter) };
        capsule(py, Holder::boxed(managed, shape, batch))
    }
}

/// Gives access to the fields that both managed structs have.
trait Exported: Sized {
    const NAME: &CStr;
    fn tensor(&mut self) -> &mut DlTensor;
    fn context(&mut self) -> &mut *mut c_void;
}

impl Exported for Managed {
    const NAME: &CStr = NAME;
    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }
    fn context(&mut self) -> &mut *mut c_void {
        &mut self.context
    }
}

impl Exported for ManagedVersioned {
    const NAME: &CStr = NAME_VERSIONED;
    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }
    fn context(&mut self) -> &mut *mut c_void {
        &mut self.context
    }
}

impl<M: Exported> Holder<M> {
    /// Moves the holder to the heap and sets the pointers of the struct.
    fn boxed(managed: M, shape: Vec<i64>, batch: Batch) -> *mut Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis].max(1);
        }
        let holder = Box::into_raw(Box::new(Self { managed, shape, strides, _batch: batch }));
        // SAFETY: `holder` was just made from a box and has no other owner. The vectors no longer grow, so their heap
        // memory does not move.
        let this = unsafe { &mut *holder };
        this.managed.tensor().shape = this.shape.as_mut_ptr();
        this.managed.tensor().strides = this.strides.as_mut_ptr();
        *this.managed.context() = holder.cast();
        holder
    }
}

/// Frees the holder of `managed`, and with it a clone of the batch. This is the deleter of a capsule.
///
/// # Safety
/// `managed` belongs to a holder made by [`Holder::boxed`] that has not been freed yet, and it is not used afterwards.
unsafe extern "C" fn free<M: Exported>(managed: *mut M) {
    // SAFETY: the caller guarantees that `managed` belongs to a holder that has not been freed (rule 1).
    let context = unsafe { *(*managed).context() };
    // SAFETY: `context` is the pointer from `Box::into_raw` in `boxed`. It is freed only here, and only once, as the
    // caller guarantees.
    drop(unsafe { Box::from_raw(context.cast::<Holder<M>>()) });
}

/// Frees the holder if no library has consumed the capsule. This is the destructor of a capsule.
///
/// # Safety
/// Only Python calls it, with a capsule made by [`capsule`].
unsafe extern "C" fn destroy<M: Exported>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that it destroys, and the name is a static C string.
    if unsafe { ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: the capsule still has its original name, so no library has consumed it (rule 2), and it points to the
    // struct of a holder.
    unsafe { free::<M>(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast()) };
}

fn capsule<M: Exported>(py: Python<'_>, holder: *mut Holder<M>) -> PyResult<Py<PyAny>> {
    // SAFETY: `holder` has not been freed, and only the address of one of its fields is taken.
    let managed = unsafe { &raw mut (*holder).managed };
    // SAFETY: the pointer is not null, the name is static, and the destructor matches the type behind the pointer.
    let made = unsafe { ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(destroy::<M>)) };
    // SAFETY: `made` is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }.map(Bound::unbind).inspect_err(|_| {
        // SAFETY: no capsule was made, so no other code frees the holder.
        drop(unsafe { Box::from_raw(holder) });
    })
}
