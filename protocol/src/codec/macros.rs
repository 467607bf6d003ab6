//! One line for each field: structs as maps with integer keys, closed lists as numbers,
//! choices as `[number, map or value]`.
//!
//! Key 0 of every map is `ext`, for fields of releases to come; own keys start at 1 and
//! ascend.

/// A struct: `wire_map!(Type { 1 => field, … })`. A key alone is a field that says nothing any
/// more: an empty struct is written there, and nothing else is read.
macro_rules! wire_map {
    ($type:ty { $($key:literal $(=> $field:ident)?),+ $(,)? }) => {
        impl $crate::codec::Wire for $type {
            fn encode(&self, to: &mut $crate::codec::Writer) {
                to.map(0 $(+ usize::from(
                    !$crate::codec::Wire::is_absent($crate::codec::wire_map!(@of self $($field)?))
                ))+);
                $(if !$crate::codec::Wire::is_absent($crate::codec::wire_map!(@of self $($field)?)) {
                    to.uint($key);
                    $crate::codec::Wire::encode($crate::codec::wire_map!(@of self $($field)?), to);
                })+
            }

            fn decode(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::CodecError> {
                let mut fields = $crate::codec::Fields::read(from)?;
                $($crate::codec::wire_map!(@take fields $key $($field)?);)+
                fields.finish()?;
                Ok(Self { $($($field,)?)+ })
            }
        }
    };
    (@of $this:ident $field:ident) => { &$this.$field };
    (@of $this:ident) => { &$crate::codec::Nothing };
    (@take $fields:ident $key:literal $field:ident) => { let $field = $fields.take($key)?; };
    (@take $fields:ident $key:literal) => {
        let $crate::codec::Nothing = $fields.take($key)?;
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
