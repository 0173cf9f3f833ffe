//! Parameters: declared in order, loaded where they are needed.

use std::marker::PhantomData;

use crate::address::{Address, Base, Symbol};
use crate::entry::{ParameterDeclaration, ParameterKind};
use crate::inst::Inst;
use crate::operand::Use;
use crate::target::{Architecture, Tma};
use crate::types::{F32, Scalar, Type, U32, U64};

use super::{Brand, Code, GlobalPointer, Kernel, Reg, TensorMap};

/// A number given to the kernel.
pub struct NumberParameter<'k, T> {
    code: &'k Code,
    index: usize,
    marker: Brand<'k, T>,
}

impl<T> Clone for NumberParameter<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for NumberParameter<'_, T> {}

impl<'k, T: Type> NumberParameter<'k, T> {
    /// Its value.
    pub fn load(self) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        let base = Base::Symbol(name(self.code, self.index));
        let address = Address { base, offset: 0 };
        self.code.push(Inst::LoadParameter { ty: T::SCALAR, d: d.def(), address });
        d
    }
}

/// The address of a buffer given to the kernel.
#[derive(Clone, Copy)]
pub struct PointerParameter<'k>(NumberParameter<'k, U64>);

impl<'k> PointerParameter<'k> {
    /// Its value.
    pub fn load(self) -> GlobalPointer<'k> {
        let code = self.0.code;
        let d = code.fresh::<U64>();
        let generic = Use(self.0.load().operand());
        code.push(Inst::CvtaToGlobal { d: d.def(), a: generic });
        GlobalPointer::from_register(d)
    }
}

/// A tensor map given to the kernel by value.
#[derive(Clone, Copy)]
pub struct MapParameter<'k> {
    code: &'k Code,
    index: usize,
    marker: Brand<'k, ()>,
}

impl<'k> MapParameter<'k> {
    /// Its address, for copies.
    pub fn address(self) -> TensorMap<'k> {
        let (symbol, generic) = (self.code.fresh::<U64>(), self.code.fresh::<U64>());
        let place = Symbol { name: name(self.code, self.index), offset: 0 };
        self.code.push(Inst::MovSymbol { ty: Scalar::B64, d: symbol.def(), symbol: place });
        let a = Use(symbol.operand());
        self.code.push(Inst::CvtaParameter { d: generic.def(), a });
        TensorMap(generic)
    }

    /// Brings it into the cache; one thread does.
    pub fn prefetch(self) {
        let map = Address { base: Base::Symbol(name(self.code, self.index)), offset: 0 };
        self.code.push(Inst::PrefetchMap { map });
    }
}

fn name(code: &Code, index: usize) -> String {
    code.parameters.borrow()[index].name.clone()
}

fn declare(code: &Code, name: &str, kind: ParameterKind) -> usize {
    let mut parameters = code.parameters.borrow_mut();
    let fits = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_');
    assert!(fits, "compiler bug: a parameter named `{name}`");
    parameters.push(ParameterDeclaration { name: format!("param_{name}"), kind });
    parameters.len() - 1
}

impl<'k, A: Architecture> Kernel<'k, A> {
    fn number<T: Type>(self, name: &str, kind: ParameterKind) -> NumberParameter<'k, T> {
        let index = declare(self.code, name, kind);
        NumberParameter { code: self.code, index, marker: PhantomData }
    }

    /// Declares the next parameter, a 32-bit number.
    pub fn parameter_u32(self, name: &str) -> NumberParameter<'k, U32> {
        self.number(name, ParameterKind::U32)
    }

    /// Declares the next parameter, a 64-bit number.
    pub fn parameter_u64(self, name: &str) -> NumberParameter<'k, U64> {
        self.number(name, ParameterKind::U64)
    }

    /// Declares the next parameter, a float.
    pub fn parameter_f32(self, name: &str) -> NumberParameter<'k, F32> {
        self.number(name, ParameterKind::F32)
    }

    /// Declares the next parameter, the address of a buffer.
    pub fn parameter_pointer(self, name: &str) -> PointerParameter<'k> {
        PointerParameter(self.number(name, ParameterKind::Pointer))
    }
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// Declares the next parameter, a tensor map by value.
    pub fn parameter_map(self, name: &str) -> MapParameter<'k> {
        let index = declare(self.code, name, ParameterKind::Map);
        MapParameter { code: self.code, index, marker: PhantomData }
    }
}
