// The list of classes, drawn from one list of plain values: an agent may know thousands. Filtering is in keys.js.
export default {
  props: { options: { type: Array, default: () => [] } }, // [index, name, key or null, new]
  template: `
    <div class="classes" role="listbox" aria-label="Classes">
      <div v-for="[index, name, key, fresh] in options" :key="index" :id="'class-' + index" class="class"
           role="option" aria-selected="false" :data-class="index" :data-name="name" :aria-keyshortcuts="key">
        <kbd v-if="key" aria-hidden="true">{{ key }}</kbd>
        <span v-else class="no-key"></span>
        <span class="name">{{ name }}</span>
        <span v-if="fresh" class="badge lit new">new</span>
      </div>
      <div class="class" role="option" id="class-create" aria-selected="false" data-create hidden>
        <span class="no-key" aria-hidden="true">+</span>
        <span class="name">Create new class “<b data-typed></b>”</span>
      </div>
    </div>`,
};
