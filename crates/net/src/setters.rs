//! Methods that set the fields of options: `ClientOptions::default().timeout(limit)`.
//!
//! Options are `#[non_exhaustive]`, so that a field can be added without breaking
//! programs; then other crates cannot name the fields in a struct expression.

/// `setters! { Options { field: Type, other: impl Into<String> } }` makes a method for each
/// of these fields. Fields that are true or false have methods of their own, without arguments.
macro_rules! setters {
    ($options:ident { $($field:ident: $value:ty),* $(,)? }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                pub fn $field(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}
