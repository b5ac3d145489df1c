package policytest

import (
	"reflect"
	"strconv"
	"strings"
)

// EachChange changes one thing of what fill has filled, each in turn, and calls do with the path of it.
func EachChange[T any](fn func(path string, changed T)) {
	for n := 0; ; n++ {
		value := Filled[T]()
		w := walker{wanted: n}
		w.walk(reflect.ValueOf(&value).Elem(), "")
		if w.path == "" {
			return
		}
		fn(w.path, value)
	}
}

// Filled returns a value of a type with something in each of its fields, which is no default.
func Filled[T any]() T {
	var value T
	fill(reflect.ValueOf(&value).Elem())
	return value
}

func fill(value reflect.Value) {
	switch value.Kind() {
	case reflect.String:
		value.SetString("a")
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(71)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		fill(value.Index(0))
		fill(value.Index(1))
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		element := reflect.New(value.Type().Elem()).Elem()
		fill(element)
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), element)
	case reflect.Struct:
		if value.Type().Name() == "IntOrString" {
			value.FieldByName("IntVal").SetInt(71)
			return
		}
		for i := range value.NumField() {
			fill(value.Field(i))
		}
	}
}

// walker goes to the change that is wanted, and makes it.
type walker struct {
	seen, wanted int
	path         string // of the change; empty: there is none
}

// now reports whether the next change is the one that is wanted.
func (w *walker) now(path string) bool {
	w.seen++
	if w.seen-1 != w.wanted {
		return false
	}
	w.path = path
	return true
}

func (w *walker) walk(value reflect.Value, path string) {
	switch value.Kind() {
	case reflect.String:
		if w.now(path) {
			value.SetString("b")
		}
	case reflect.Bool:
		if w.now(path) {
			value.SetBool(!value.Bool())
		}
	case reflect.Int:
		if w.now(path) {
			value.SetInt(72)
		}
	case reflect.Pointer:
		if value.Elem().Kind() != reflect.Bool && w.now(path+" is left out") { // what a bool that is left out means is its default, which it may have
			value.SetZero()
			return
		}
		w.walk(value.Elem(), path)
	case reflect.Slice:
		if w.now(path + " has one less") {
			value.SetLen(1)
			return
		}
		for i := range value.Len() {
			w.walk(value.Index(i), path+"["+strconv.Itoa(i)+"]")
		}
	case reflect.Map:
		w.entries(value, path)
	case reflect.Struct:
		if value.Type().Name() == "IntOrString" {
			if w.now(path) {
				value.FieldByName("IntVal").SetInt(72)
			}
			return
		}
		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			w.walk(value.Field(i), strings.TrimPrefix(path+"."+name, "."))
		}
	}
}

// entries changes those of a map.
func (w *walker) entries(value reflect.Value, path string) {
	key, empty := value.MapKeys()[0], reflect.Zero(value.Type().Elem())
	extra := reflect.ValueOf("other").Convert(value.Type().Key())
	for i, change := range []func(){
		func() { value.SetMapIndex(key, reflect.Value{}) },
		func() { value.SetMapIndex(key, empty) },
		func() { value.SetMapIndex(extra, empty) },
	} {
		if w.now(path + " by " + strconv.Itoa(i)) {
			change()
		}
	}
}
