package policytest

import (
	"reflect"
	"strconv"
	"strings"
)

// EachChange changes one thing of what fill has filled, each in turn, and calls do with the path of it.
func EachChange[T any](do func(path string, changed T)) {
	for n := 0; ; n++ {
		value := Filled[T]()
		w := walker{wanted: n}
		w.walk(reflect.ValueOf(&value).Elem(), "")
		if w.path == "" {
			return
		}
		do(w.path, value)
	}
}

// Filled returns a value of a type with something in each of its fields, which is no default.
func Filled[T any]() T {
	var value T
	fill(reflect.ValueOf(&value).Elem())
	return value
}

func fill(of reflect.Value) {
	switch of.Kind() {
	case reflect.String:
		of.SetString("a")
	case reflect.Int, reflect.Int32, reflect.Int64:
		of.SetInt(71)
	case reflect.Pointer:
		of.Set(reflect.New(of.Type().Elem()))
		fill(of.Elem())
	case reflect.Slice:
		of.Set(reflect.MakeSlice(of.Type(), 2, 2))
		fill(of.Index(0))
		fill(of.Index(1))
	case reflect.Map:
		of.Set(reflect.MakeMap(of.Type()))
		element := reflect.New(of.Type().Elem()).Elem()
		fill(element)
		of.SetMapIndex(reflect.ValueOf("key").Convert(of.Type().Key()), element)
	case reflect.Struct:
		if of.Type().Name() == "IntOrString" {
			of.FieldByName("IntVal").SetInt(71)
			return
		}
		for i := range of.NumField() {
			fill(of.Field(i))
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

func (w *walker) walk(of reflect.Value, path string) {
	switch of.Kind() {
	case reflect.String:
		if w.now(path) {
			of.SetString("b")
		}
	case reflect.Bool:
		if w.now(path) {
			of.SetBool(!of.Bool())
		}
	case reflect.Int:
		if w.now(path) {
			of.SetInt(72)
		}
	case reflect.Pointer:
		if of.Elem().Kind() != reflect.Bool && w.now(path+" is left out") { // what a bool that is left out means is its default, which it may have
			of.SetZero()
			return
		}
		w.walk(of.Elem(), path)
	case reflect.Slice:
		if w.now(path + " has one less") {
			of.SetLen(1)
			return
		}
		for i := range of.Len() {
			w.walk(of.Index(i), path+"["+strconv.Itoa(i)+"]")
		}
	case reflect.Map:
		w.entries(of, path)
	case reflect.Struct:
		if of.Type().Name() == "IntOrString" {
			if w.now(path) {
				of.FieldByName("IntVal").SetInt(72)
			}
			return
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
			w.walk(of.Field(i), strings.TrimPrefix(path+"."+name, "."))
		}
	}
}

// entries changes those of a map.
func (w *walker) entries(of reflect.Value, path string) {
	key, empty := of.MapKeys()[0], reflect.Zero(of.Type().Elem())
	another := reflect.ValueOf("other").Convert(of.Type().Key())
	for what, change := range []func(){
		func() { of.SetMapIndex(key, reflect.Value{}) },
		func() { of.SetMapIndex(key, empty) },
		func() { of.SetMapIndex(another, empty) },
	} {
		if w.now(path + " by " + strconv.Itoa(what)) {
			change()
		}
	}
}
