//! One line for each field: structs as maps with integer keys, closed lists as numbers,
//! choices as `[number, map or value]`.
//!
//! Key 0 of every map is `ext`, for fields of releases to come; own keys start at 1 and
//! ascend.

/// A struct: `wire_map!(Type { ext { 3 critical => field, … }, 1 => field, … })`. A key alone is a
/// field that says nothing any more: an empty struct is written there, and nothing else is read.
/// What stands in `ext` travels under key 0, by a number of the register in `docs/wire.md`, in
/// ascending order: `critical` where a reader that does not know it refuses the message, `optional`
/// where it passes over it.
macro_rules! wire_map {
    ($type:ty {
        $(ext { $($id:literal $flag:ident => $said:ident),+ $(,)? },)?
        $($key:literal $(=> $field:ident)?),+ $(,)?
    }) => {
        impl $crate::codec::Wire for $type {
            fn encode(&self, to: &mut $crate::codec::Writer) {
                $(let said: Vec<$crate::codec::extension::Said> = [$(
                    $crate::codec::Extension::to_value(&self.$said)
                        .map(|value| ($id, $crate::codec::wire_map!(@flag $flag), value))
                ),+].into_iter().flatten().collect();)?
                to.map(0 $(+ $crate::codec::wire_map!(@any said $($id)+))? $(+ usize::from(
                    !$crate::codec::Wire::is_absent($crate::codec::wire_map!(@of self $($field)?))
                ))+);
                $($crate::codec::wire_map!(@write said to $($id)+);)?
                $(if !$crate::codec::Wire::is_absent($crate::codec::wire_map!(@of self $($field)?)) {
                    to.uint($key);
                    $crate::codec::Wire::encode($crate::codec::wire_map!(@of self $($field)?), to);
                })+
            }

            fn decode(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                $($(let mut $said = Default::default();)+)?
                let mut fields = $crate::codec::wire_map!(@read from $($($id $flag => $said),+)?)?;
                $($crate::codec::wire_map!(@take fields $key $($field)?);)+
                fields.finish()?;
                Ok(Self { $($($said,)+)? $($($field,)?)+ })
            }
        }
    };
    (@of $this:ident $field:ident) => { &$this.$field };
    (@of $this:ident) => { &$crate::codec::Nothing };
    (@take $fields:ident $key:literal $field:ident) => { let $field = $fields.take($key)?; };
    (@take $fields:ident $key:literal) => {
        let $crate::codec::Nothing = $fields.take($key)?;
    };
    (@flag critical) => { true };
    (@flag optional) => { false };
    (@any $said:ident $($id:literal)+) => { usize::from(!$said.is_empty()) };
    (@write $said:ident $to:ident $($id:literal)+) => {
        $crate::codec::extension::write($to, &$said);
    };
    (@read $from:ident) => { $crate::codec::Fields::read($from) };
    (@read $from:ident $($id:literal $flag:ident => $said:ident),+) => {
        $crate::codec::Fields::read_with($from, |id, critical, value| match id {
            $($id => {
                let known = $crate::codec::wire_map!(@flag $flag);
                $said = $crate::codec::extension::read(id, known, critical, value)?;
                Ok($crate::codec::Known::Known)
            })+
            _ => Ok($crate::codec::Known::Unknown),
        })
    };
}

/// A closed list: `wire_enum!(Type { 0 => Variant, … })`.
macro_rules! wire_enum {
    ($type:ty { $($number:literal => $variant:ident),+ $(,)? }) => {
        impl $crate::codec::Wire for $type {
            fn encode(&self, to: &mut $crate::codec::Writer) {
                to.uint(match self { $(Self::$variant => $number),+ });
            }

            fn decode(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                match from.uint()? {
                    $($number => Ok(Self::$variant),)+
                    other => Err($crate::codec::CodecError::UnknownVariant(other)),
                }
            }
        }
    };
}

/// A choice: `wire_union!(Type { 0 => Variant(value), 1 => Variant { 1 => field }, … })`.
macro_rules! wire_union {
    ($type:ty { $(
        $number:literal => $variant:ident $(($value:ident))? $({ $($key:literal => $field:ident),* })?
    ),+ $(,)? }) => {
        impl $crate::codec::Wire for $type {
            fn encode(&self, to: &mut $crate::codec::Writer) {
                to.array(2);
                match self {
                    $(Self::$variant $(($value))? $({ $($field),* })? => {
                        to.uint($number);
                        $($crate::codec::Wire::encode($value, to);)?
                        $(
                            to.map(0 $(+ usize::from(!$crate::codec::Wire::is_absent($field)))*);
                            $(if !$crate::codec::Wire::is_absent($field) {
                                to.uint($key);
                                $crate::codec::Wire::encode($field, to);
                            })*
                        )?
                    })+
                }
            }

            fn decode(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                if from.array()? != 2 {
                    return Err($crate::codec::CodecError::Expected("[number, content]"));
                }
                match from.uint()? {
                    $($number => {
                        $(
                            let $value = $crate::codec::Wire::decode(from)?;
                            Ok(Self::$variant($value))
                        )?
                        $(
                            let mut fields = $crate::codec::Fields::read(from)?;
                            let value = Self::$variant { $($field: fields.take($key)?),* };
                            fields.finish()?;
                            Ok(value)
                        )?
                    })+
                    other => Err($crate::codec::CodecError::UnknownVariant(other)),
                }
            }
        }
    };
}

pub(crate) use {wire_enum, wire_map, wire_union};
