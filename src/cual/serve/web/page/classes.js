// The list of classes, drawn from one list of plain values: an agent may know thousands. What is typed, and which
// of them are shown then, is keys.js's business.
export default {
  props: { options: { type: Array, default: () => [] } }, // [index, name, key or null, new, about, picture, colour]
  template: `
    <div class="classes" role="listbox" aria-label="Classes">
      <div v-for="[index, name, key, fresh, about, picture, colour] in options" :key="index" :id="'class-' + index"
           class="class" role="option" aria-selected="false" :data-class="index" :data-name="name"
           :aria-label="about ? name + ': ' + about : name" :aria-keyshortcuts="key">
        <kbd v-if="key" aria-hidden="true">{{ key }}</kbd>
        <span v-else class="no-key"></span>
        <img v-if="picture" :src="picture" :alt="'Example of ' + name" loading="lazy" draggable="false">
        <span v-else class="no-picture"></span>
        <span class="name"><span class="colour" :style="{ background: colour }"></span>{{ name }}
          <span v-if="about" class="about">{{ about }}</span></span>
        <span v-if="fresh" class="badge lit new">new</span>
      </div>
      <div class="class" role="option" id="class-create" aria-selected="false" data-create="ask" hidden>
        <span class="no-key" aria-hidden="true">+</span>
        <span class="name">Create new class “<b data-typed></b>” …</span>
      </div>
    </div>`,
};
